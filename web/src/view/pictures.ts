// Keeps the pictures at what was chosen: cloud, sample or stage, colors, the sample that is picked.

import type { Stage } from "../rpc/sampling";
import { Assigner } from "../sample/assigner";
import type { Nearest } from "../sample/nearest";
import { encoded, sampled, scene, type Scene } from "../session";
import { settings, type Coloring } from "../state";
import { Signal } from "../ui/signal";
import { isDark, theme } from "../ui/theme";
import { colorsOfKept, colorsOfSample, colorsOfStage, type Colored, type Shown } from "./coloring";
import { spotlight, type Legend, type Painting } from "./paintings";
import type { Viewer } from "./viewer";

export const shown = new Signal<Shown | undefined>(undefined);
export const legend = new Signal<Legend | string | undefined>(undefined);
export const picked = new Signal<number | undefined>(undefined);
/** Of the samples that are shown; undefined while it is not computed. */
export const nearest = new Signal<Nearest | undefined>(undefined);

const assigner = new Assigner();
let painting: Painting | undefined;

export function keepPictures(viewer: Viewer): void {
  let drawn: Scene | undefined;
  let rows: Int32Array | undefined;
  let painted = "";
  const update = (): void => {
    const current = scene.value;
    if (!current) return;
    if (drawn !== current) viewer.showCloud(current.framed);
    if (drawn !== current) rows = undefined;
    drawn = current;
    const now = whatToShow(current);
    if (now?.rows !== rows)
      viewer.showSample(now ? positionsOf(current, now.rows) : new Float32Array());
    const same = now?.rows === rows && painted === `${settings.tab.value} ${current.cloud.name}`;
    rows = now?.rows;
    viewer.limitSample(now?.count ?? 0);
    nearest.set(undefined);
    picked.set(undefined);
    shown.set(now);
    // What is painted by a value of its own does not change with the number of samples.
    if (!same || dependsOnSamples()) repaint(viewer);
    painted = `${settings.tab.value} ${current.cloud.name}`;
  };
  for (const signal of [scene, sampled, encoded, settings.m, settings.tab, settings.stage])
    signal.onChange(update);
  for (const signal of [settings.color, settings.features, theme])
    signal.onChange(() => repaint(viewer));
  picked.onChange(() => {
    viewer.mark(picked.value);
    if (picked.value !== undefined) withNearest(() => apply(viewer));
    else apply(viewer);
  });
  update();
}

function dependsOnSamples(): boolean {
  return (
    settings.tab.value === "encode" ||
    settings.color.value === "distance" ||
    settings.color.value === "cell"
  );
}

function whatToShow(current: Scene): Shown | undefined {
  if (settings.tab.value === "encode") {
    const stage = shownStage();
    return stage && { rows: stage.indices, count: stage.indices.length, radius: 0 };
  }
  const sample = sampled.value;
  if (!sample) return undefined;
  const count = Math.max(1, Math.min(settings.m.value, sample.indices.length, current.cloud.count));
  return { rows: sample.indices, count, radius: sample.radii[count - 1]! };
}

function positionsOf({ framed }: Scene, rows: Int32Array): Float32Array {
  const positions = new Float32Array(3 * rows.length);
  rows.forEach((row, i) => positions.set(framed.positions.subarray(3 * row, 3 * row + 3), 3 * i));
  return positions;
}

function repaint(viewer: Viewer): void {
  const current = scene.value;
  if (!current) return;
  const stage = shownStage();
  const colored = (found: Nearest | undefined): Colored | undefined => {
    if (!stage) return colorsOfSample(current, shown.value, found, sampleColoring(), isDark());
    return found && colorsOfStage(stage, found, settings.features.value, isDark());
  };
  const done = (next: Colored | undefined): void => {
    painting = next?.painting;
    legend.set(next?.text ?? painting?.legend);
    apply(viewer);
  };
  const now = colored(nearest.value);
  if (now) return done(now);
  // The stage at once; the cloud when it is known what stands for what.
  if (stage) viewer.paintSample(colorsOfKept(stage, settings.features.value, isDark()).sample);
  withNearest((found) => done(colored(found)));
}

/** Until the encoder has run, its tab shows the cloud by height. */
function sampleColoring(): Coloring {
  return settings.tab.value === "encode" ? "height" : settings.color.value;
}

function shownStage(): Stage | undefined {
  const stages = settings.tab.value === "encode" ? (encoded.value?.stages ?? []) : [];
  return stages[Math.min(settings.stage.value, stages.length - 1)];
}

/** Calls with the nearest samples of what is shown, at once where they are known. */
function withNearest(use: (found: Nearest) => void): void {
  if (nearest.value) return use(nearest.value);
  const [current, now] = [scene.value, shown.value];
  if (!current || !now) return;
  const stages = encoded.value?.stages ?? [];
  const orders =
    settings.tab.value === "encode"
      ? stages.slice(0, settings.stage.value + 1).map((stage) => stage.indices)
      : [now.rows.slice(0, now.count)];
  const { measured, finite } = current.framed;
  assigner.ask({ positions: measured, wanted: finite, orders, guess: now.radius }, (found) => {
    if (shown.value !== now) return;
    nearest.set(found);
    use(found);
  });
}

function apply(viewer: Viewer): void {
  if (!painting) return;
  const [sample, found] = [picked.value, nearest.value];
  const lit = sample !== undefined && found;
  viewer.paintCloud(
    lit
      ? spotlight(painting.cloud, found.assignment, sample, viewer.backgroundBytes)
      : painting.cloud,
  );
  viewer.paintSample(painting.sample);
}
