// One sample, chosen by a click or by its number, and the points it stands for.

import { encoded, scene } from "../session";
import { settings } from "../state";
import { element } from "../ui/dom";
import { count, measure, plural } from "../ui/format";
import { nearest, picked, shown } from "../view/pictures";

export function startPicking(): void {
  const number = element("pick", "input");
  number.addEventListener("input", () => {
    const value = number.value === "" ? NaN : Math.trunc(Number(number.value));
    picked.set(value >= 0 && value < (shown.value?.count ?? 0) ? value : undefined);
  });
  picked.onChange((sample) => {
    if (document.activeElement !== number)
      number.value = sample === undefined ? "" : String(sample);
    describe();
  });
  nearest.onChange(describe);
  shown.onChange(describe);
  shown.onChange(() => (number.max = String((shown.value?.count ?? 1) - 1)));
  settings.tab.onChange(describe);
  describe();
}

function describe(): void {
  const hint = element("pick-hint", "p");
  const [sample, now, found, current] = [picked.value, shown.value, nearest.value, scene.value];
  if (sample === undefined || !now || !current) {
    hint.textContent = now ? "Click one in the picture to see the points it stands for." : "";
    return;
  }
  if (!found) {
    hint.textContent = "…";
    return;
  }
  let [points, reach] = [0, 0];
  found.assignment.forEach((of, i) => {
    if (of !== sample) return;
    points++;
    reach = Math.max(reach, found.distance[i]!);
  });
  const row = `Row ${count(now.rows[sample]!)}`;
  if (settings.tab.value === "sample") {
    hint.textContent = `${row} stands for ${plural(points, "point")} within ${measure(reach)}.`;
    return;
  }
  // The server's own count; the page follows the stages in the same arithmetic.
  const stage = encoded.value?.stages[settings.stage.value];
  const counted = stage?.counts[sample] ?? points;
  const marked = counted === points ? "" : ` (${count(points)} shown)`;
  hint.textContent = `${row} stands for ${plural(counted, "point")}${marked}; those of the stage before are ${measure(stage?.distances[sample] ?? NaN)} away on average.`;
}
