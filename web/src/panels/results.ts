// The facts below the pictures: the sentence, the curve, where the time went.

import { element } from "../base/dom";
import { count, measure, milliseconds, plural } from "../base/format";
import { followAll } from "../base/signal";
import type { Took } from "../rpc/sampling";
import { scene, unitOf } from "../state/session";
import { right } from "../state/shown";
import { Curve } from "./curve";

export function startResults(setSamples: (m: number) => void): void {
  const curve = new Curve(element("curve", "div"), setSamples);
  followAll([scene, right.shown, right.radius], () => {
    element("sentence", "p").textContent = sentence();
    element("unit-hint", "p").textContent =
      scene.value && !unitOf() ? "Lengths are in the unit of the file." : "";
    element("time", "p").textContent = timeOf(right.shown.value?.sample.took);
    showCurve(curve);
  });
}

function sentence(): string {
  const [current, now, radius] = [scene.value, right.shown.value, right.radius.value];
  if (!current || !now) return "No sample yet";
  const part = `${count(now.rows.length)} of ${plural(current.cloud.count, "point")}`;
  if (radius === undefined) return `${part}; measuring how far the others are from them …`;
  return `${part}; no point is farther than ${measure(radius)}${unitOf()} from one of them.`;
}

function showCurve(curve: Curve): void {
  const now = right.shown.value;
  const radii = now?.sample.radii;
  const m = now?.rows.length ?? 1;
  element("curve-hint", "p").textContent =
    now && !radii ? "Voxel grids and random rows have no covering radius." : "";
  const at = (samples: number): string => measure(radii?.[samples - 1] ?? NaN);
  const label = radii
    ? `Covering radius over the number of samples, falling from ${at(1)} at 1 to ${at(radii.length)} at ${count(radii.length)}; at ${count(m)} it is ${at(m)}`
    : "No curve";
  curve.show(radii, m, label);
}

function timeOf(took: Took | undefined): string {
  if (!took) return "";
  const { queue, compute, convert, wire } = took;
  const parts = Object.entries({ queue, compute, convert, wire });
  const each = parts.map(([name, value]) => `${name}\u00a0${milliseconds(value)}`);
  return `Answered in ${milliseconds(queue + compute + convert + wire)}: ${each.join(", ")}.`;
}
