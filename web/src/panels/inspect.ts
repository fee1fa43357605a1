// Inspecting a sample: chosen by a click or by its number, described with the points of its cell.

import { element } from "../base/dom";
import { count, measure, plural } from "../base/format";
import { followAll } from "../base/signal";
import { unitOf } from "../state/session";
import { picked, right } from "../state/shown";

export function startInspect(): void {
  const number = element("pick", "input");
  number.addEventListener("input", () => {
    const value = number.value === "" ? NaN : Math.trunc(Number(number.value));
    picked.set(value >= 0 && value < (right.shown.value?.rows.length ?? 0) ? value : undefined);
  });
  picked.onChange((sample) => {
    if (document.activeElement !== number) number.value = String(sample ?? "");
  });
  right.shown.follow((now) => (number.max = String((now?.rows.length ?? 1) - 1)));
  followAll([picked, right.nearest, right.shown], () => {
    element("pick-hint", "p").textContent = describe();
  });
}

function describe(): string {
  const [sample, now, found] = [picked.value, right.shown.value, right.nearest.value];
  if (!now) return "No sample yet.";
  if (sample === undefined) return "Click one in the picture to see the points nearest to it.";
  if (!found) return "…";
  let [points, reach] = [0, 0];
  found.assignment.forEach((of, i) => {
    if (of !== sample) return;
    points++;
    reach = Math.max(reach, found.distance[i]!);
  });
  const row = `Row ${count(now.rows[sample]!)}`;
  return `${row} is the nearest sample of ${plural(points, "point")} within ${measure(reach)}${unitOf()}.`;
}
