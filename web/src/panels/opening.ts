// Ways to choose a cloud: drop a file anywhere, open one, take the example scan, follow a link.

import { element } from "../base/dom";
import { prepareReader } from "../cloud/open";
import { chooseFile, chooseStreet, problem } from "../state/session";
import { settings, STREET } from "../state/settings";

export function startOpening(): void {
  prepareReader();
  const file = element("file", "input");
  file.addEventListener("change", () => {
    const [first] = file.files ?? [];
    if (first) void chooseFile(first);
    // So that the same file can be chosen once more.
    file.value = "";
  });
  element("choose", "button").addEventListener("click", () => file.click());
  element("street", "button").addEventListener("click", () => void chooseStreet());
  startDropping();
}

function startDropping(): void {
  const veil = element("dropping", "div");
  // A drag enters an element before it leaves the one around it.
  let inside = 0;
  const count = (change: number): void => {
    inside = Math.max(0, inside + change);
    veil.hidden = inside === 0;
  };
  addEventListener("dragenter", (event) => {
    event.preventDefault();
    count(1);
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("dragleave", () => count(-1));
  addEventListener("drop", (event) => {
    event.preventDefault();
    count(-inside);
    const [first] = event.dataTransfer?.files ?? [];
    if (first) void chooseFile(first);
    else problem.set("Only a file can be dropped here.");
  });
}

/** Opens the cloud that the link names; of a file it knows only the name. */
export function openLinked(): void {
  const name = settings.cloud.value;
  if (name === STREET) void chooseStreet();
  else problem.set(`This link belongs to ${name}: open or drop that file to see it.`);
}
