// The facts below the pictures: the sentence, the curve, where the time went.

import { element } from "../base/dom";
import { count, measure, milliseconds, plural } from "../base/format";
import type { Took } from "../rpc/sampling";
import { right, scene, unitOf, type Shown } from "../state/session";
import { Curve } from "./curve";

export function startResults(setSamples: (m: number) => void): void {
  const curve = new Curve(element("curve", "div"), setSamples);
  right.follow((now) => {
    element("sentence", "p").textContent = sentence(now);
    element("time", "p").textContent = now ? timeOf(now.sample.took) : "";
    const radii = now?.sample.radii;
    element("curve-hint", "p").textContent =
      now && !radii ? "Voxel grids and random rows have no covering radius." : "";
    curve.show(radii, now?.rows.length ?? 1);
  });
}

function sentence(now: Shown | undefined): string {
  if (!now || !scene.value) return "No sample yet";
  const part = `${count(now.rows.length)} of ${plural(scene.value.cloud.count, "point")}`;
  if (now.radius === undefined) return `${part}.`;
  return `${part}; no point is farther than ${measure(now.radius)}${unitOf()} from one of them.`;
}

function timeOf({ queue, compute, convert, wire }: Took): string {
  const parts = Object.entries({ queue, compute, convert, wire });
  const each = parts.map(([name, value]) => `${name}\u00a0${milliseconds(value)}`);
  return `Answered in ${milliseconds(queue + compute + convert + wire)}: ${each.join(", ")}.`;
}
