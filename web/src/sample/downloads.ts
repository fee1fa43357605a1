// The sample as a file, and a link to the settings.

import { fileName, writeRows, type Format } from "../cloud/write";
import { sampled, scene } from "../session";
import { settings, toFragment } from "../state";
import { element } from "../ui/dom";
import { shown } from "../view/pictures";

export function startDownloads(): void {
  const buttons = [...element("downloads", "div").querySelectorAll("button")];
  for (const button of buttons)
    button.addEventListener("click", () => download(button.dataset.format as Format));
  const update = (): void => buttons.forEach((button) => (button.disabled = !sampled.value));
  sampled.follow(update);
  startPermalink();
}

function download(format: Format): void {
  const [current, now] = [scene.value, shown.value];
  if (!current || !now) return;
  const rows = now.rows.slice(0, now.count);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(writeRows(format, current.cloud, rows));
  link.download = fileName(format, current.cloud, rows.length);
  link.click();
  // The browser has taken hold of it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function startPermalink(): void {
  const button = element("permalink", "button");
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const address = `${location.origin}${location.pathname}#${toFragment()}`;
    history.replaceState(null, "", address);
    const file = settings.cloud.value && settings.cloud.value !== "street";
    try {
      await navigator.clipboard.writeText(address);
      button.textContent = file ? "Copied; the file itself is not in it" : "Copied";
    } catch {
      // Only secure pages may write to the clipboard; the address bar has the link as well.
      button.textContent = "It is in the address bar";
    }
    setTimeout(() => (button.textContent = label), 2500);
  });
}
