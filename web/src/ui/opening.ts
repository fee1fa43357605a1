// Ways to choose a cloud: drop it anywhere, open it, take the street.

import { prepareReader } from "../cloud/open";
import { chooseFile, chooseStreet, problem } from "../session";
import { settings } from "../state";
import { element } from "./dom";

export function startOpening(): void {
  prepareReader();
  const file = element("file", "input");
  file.addEventListener("change", () => {
    const [first] = file.files ?? [];
    if (first) void chooseFile(first);
    // So that the same file can be chosen once more.
    file.value = "";
  });
  for (const id of ["choose", "empty-choose"])
    element(id, "button").addEventListener("click", () => file.click());
  for (const id of ["street", "empty-street"])
    element(id, "button").addEventListener("click", () => void chooseStreet());
  startDropping();
}

function startDropping(): void {
  const veil = element("dropping", "div");
  // Elements below the pointer come and go; only the last one to go is the end.
  let inside = 0;
  addEventListener("dragenter", (event) => {
    event.preventDefault();
    inside++;
    veil.hidden = false;
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("dragleave", () => {
    inside = Math.max(0, inside - 1);
    veil.hidden = inside === 0;
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    inside = 0;
    veil.hidden = true;
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length) {
      if (settings.tab.value === "server") settings.tab.set("sample");
      void chooseFile(files[0]!);
    } else {
      problem.set("What was dropped is no file.");
    }
  });
}

/** What a permalink names; of a file only its name is known. */
export function openLinked(): void {
  const name = settings.cloud.value;
  if (name === "street") void chooseStreet();
  else if (name) problem.set(`This link belongs to ${name}: open or drop that file to see it.`);
}
