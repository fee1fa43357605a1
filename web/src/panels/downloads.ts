// The sample as a file, and a link to the settings.

import { element } from "../base/dom";
import { fileName, writeRows, type Format } from "../cloud/write";
import { scene } from "../state/session";
import { settings, STREET, toFragment } from "../state/settings";
import { right } from "../state/shown";

export function startDownloads(): void {
  const buttons = [...element("downloads", "div").querySelectorAll("button")];
  for (const button of buttons)
    button.addEventListener("click", () => download(button.dataset.format as Format));
  right.shown.follow((now) => {
    for (const button of buttons) {
      button.disabled = !now;
      button.title = now ? "" : "No sample yet";
    }
  });
  startLink();
}

function download(format: Format): void {
  const [current, now] = [scene.value, right.shown.value];
  if (!current || !now) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(writeRows(format, current.cloud, now.rows));
  link.download = fileName(format, current.cloud, now.rows.length);
  link.click();
  // The browser has started the download by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function startLink(): void {
  const button = element("permalink", "button");
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const address = `${location.origin}${location.pathname}#${toFragment()}`;
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      const isFile = settings.cloud.value !== STREET;
      button.textContent = isFile ? "Copied; the link does not contain the file" : "Copied";
    } catch {
      // Only secure pages may write to the clipboard.
      button.textContent = "The link is in the address bar";
    }
    setTimeout(() => (button.textContent = label), 2500);
  });
}
