// Ways in and out: drop a file anywhere, open one, take the example scan; the sample as a file.

import { element } from "../base/dom";
import { count, plural } from "../base/format";
import { fileName, writeRows, type Format } from "../cloud/write";
import { chooseFile, chooseStreet, problem, right, scene, type Scene } from "../state/session";

export function startFiles(): void {
  const file = element("file", "input");
  file.addEventListener("change", () => {
    choose(file.files);
    // So that the same file can be chosen once more.
    file.value = "";
  });
  element("choose", "button").addEventListener("click", () => file.click());
  element("street", "button").addEventListener("click", () => void chooseStreet());
  startDropping();
  startDownloads();
  scene.onChange((current) => current && showFacts(current));
}

function choose(files: FileList | null | undefined): void {
  if (files?.[0]) void chooseFile(files[0]);
}

function startDropping(): void {
  const veil = element("dropping", "div");
  for (const kind of ["dragenter", "dragover"])
    addEventListener(kind, (event) => {
      event.preventDefault();
      veil.hidden = false;
    });
  // Of the window: a drag that goes to another element has one.
  addEventListener("dragleave", (event) => (veil.hidden = event.relatedTarget !== null));
  addEventListener("drop", (event) => {
    event.preventDefault();
    veil.hidden = true;
    if (event.dataTransfer?.files.length) choose(event.dataTransfer.files);
    else problem.set("Only a file can be dropped here.");
  });
}

function startDownloads(): void {
  const buttons = [...element("downloads", "div").querySelectorAll("button")];
  for (const button of buttons)
    button.addEventListener("click", () => download(button.dataset.format as Format));
  right.follow((now) => buttons.forEach((button) => (button.disabled = !now)));
}

function download(format: Format): void {
  const [current, now] = [scene.value, right.value];
  if (!current || !now) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(writeRows(format, current.cloud, now.rows));
  link.download = fileName(format, current.cloud, now.rows.length);
  link.click();
  // The browser has started the download by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function showFacts({ cloud, finite }: Scene): void {
  const kind = cloud.points instanceof Float64Array ? "float64" : "float32";
  const names = [...cloud.attributes.keys()];
  const some = names.slice(0, 6).join(", ") + (names.length > 6 ? ", …" : "");
  const missing = cloud.count - finite;
  element("cloud-name", "strong").textContent = cloud.name;
  element("cloud-facts", "span").textContent =
    `${plural(cloud.count, "point")}, ${kind}${some && `, with ${some}`}` +
    (missing ? `. Rows with NaN or infinity are skipped: ${count(missing)}.` : "");
}
