// The numbers below the pictures: covering radius, coverage curve, time.

import { encoded, sampled } from "../session";
import { settings } from "../state";
import type { Took } from "../rpc/sampling";
import { Chart } from "../ui/chart";
import { element, make } from "../ui/dom";
import { count, measure, milliseconds, plural } from "../ui/format";
import { shown } from "../view/pictures";

/** Points of the curve; more are finer than a pixel. */
const FINENESS = 360;

export function startResults(setSamples: (m: number) => void): void {
  const curve = new Chart(element("curve", "div"), "No sample yet");
  curve.onPoint((m) => setSamples(Math.round(m)));
  const update = (): void => {
    showRadius();
    showCurve(curve);
    const encoding = settings.tab.value === "encode";
    showTime(encoding ? encoded.value?.took : sampled.value?.took);
  };
  for (const signal of [shown, sampled, encoded, settings.tab]) signal.onChange(update);
  update();
}

function showRadius(): void {
  const sample = sampled.value;
  const m = Math.min(settings.m.value, sample?.indices.length ?? 0);
  element("radius", "p").textContent = sample ? measure(sample.radii[m - 1]!) : "–";
  element("radius-hint", "p").textContent = sample
    ? `in the unit of the file: every point has one of ${plural(m, "sample")} within it.`
    : "How far the farthest point is from its sample.";
}

function showCurve(chart: Chart): void {
  const sample = sampled.value;
  if (!sample || sample.indices.length < 2) return chart.show(undefined, "No sample yet");
  const most = sample.radii.length;
  const steps = new Set<number>();
  for (let i = 0; i <= FINENESS; i++) steps.add(Math.round(most ** (i / FINENESS)));
  const x = [...steps];
  // Where every point is a sample the radius is 0, which no logarithm shows.
  const least = smallestPositive(sample.radii);
  const y = x.map((m) => Math.max(sample.radii[m - 1]!, least));
  const m = Math.min(settings.m.value, most);
  const radius = sample.radii[m - 1]!;
  chart.show(
    {
      x: { low: 1, high: most, logarithmic: true },
      y: { low: least, high: Math.max(y[0]!, least * 1.01), logarithmic: true },
      lines: [
        { x, y, kind: "area" },
        { x, y, kind: "accent" },
      ],
      cursor: { x: m, y: Math.max(radius, least) },
      formatX: (value) => (value >= 1000 ? `${value / 1000}k` : String(value)),
      formatY: measure,
    },
    `Covering radius over the number of samples, falling from ${measure(y[0]!)} at 1 to ${measure(sample.radii[most - 1]!)} at ${count(most)}; at ${count(m)} it is ${measure(radius)}`,
  );
}

function smallestPositive(radii: Float32Array): number {
  for (let i = radii.length - 1; i >= 0; i--) if (radii[i]! > 0) return radii[i]!;
  return 1e-3;
}

function showTime(took: Took | undefined): void {
  const parts = took
    ? ([
        ["queue", took.queue],
        ["compute", took.compute],
        ["convert", took.convert],
        ["wire", took.wire],
      ] as const)
    : [];
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  element("time-total", "p").textContent = took ? milliseconds(total) : "–";
  const whole = sampled.value?.indices.length ?? 0;
  const serves = settings.tab.value === "sample" && whole > 1;
  element("time-hint", "p").textContent = took
    ? serves
      ? `One call for every number of samples up to ${count(whole)}.`
      : "One call for all stages."
    : "";
  const bar = element("time-bar", "div");
  bar.replaceChildren(
    ...parts.map(([name, value]) => {
      const piece = make("span", { class: `piece ${name}` });
      piece.style.flexGrow = String(Math.max(value / Math.max(total, 1e-9), 0.004));
      return piece;
    }),
  );
  bar.setAttribute(
    "aria-label",
    took
      ? parts.map(([name, value]) => `${name} ${milliseconds(value)}`).join(", ")
      : "No call yet",
  );
  element("time-parts", "dl").replaceChildren(
    ...parts.map(([name, value]) =>
      make("div", {}, make("dt", { class: name }, name), make("dd", {}, milliseconds(value))),
    ),
  );
}
