// Keeps the pictures at what is chosen: cloud, samples, colors, the inspected sample.

import { bindRadios, element } from "../base/dom";
import { followAll, Signal } from "../base/signal";
import { isDark, theme } from "../base/theme";
import { scene } from "../state/session";
import { settings } from "../state/settings";
import { left, picked, right } from "../state/shown";
import { gather } from "../view/framing";
import {
  byCell,
  byColumn,
  byDistance,
  pick,
  faded,
  type Legend,
  type Painting,
} from "../view/paint";
import { Viewer } from "../view/viewer";

export const legend = new Signal<Legend | undefined>(undefined);

export function startPictures(): void {
  const canvas = element("canvas", "canvas");
  const viewer = new Viewer(canvas, settings.camera);
  element("no-webgl", "p").hidden = viewer.canDraw;
  theme.follow(() => viewer.setBackground(getComputedStyle(canvas).backgroundColor));
  scene.onChange((current) => current && viewer.showCloud(current.framed));
  showSamples(viewer);
  keepPainted(viewer);
  startTools(viewer);
  pickOnClick(canvas, viewer);
}

function showSamples(viewer: Viewer): void {
  right.shown.onChange((now) => {
    const indices = now?.sample.indices;
    viewer.showSample(
      indices ? gather(scene.value!.framed.positions, indices) : new Float32Array(),
    );
    viewer.limitSample(now?.rows.length ?? 0);
  });
  left.shown.onChange((now) => {
    const rows = now?.rows ?? [];
    viewer.compare(gather(scene.value?.framed.positions ?? new Float32Array(), rows), rows.length);
  });
  followAll([picked, right.nearest], () => viewer.mark(picked.value, cellOf(picked.value)));
}

/** Rows of the points whose nearest sample is this one, if they are known. */
function cellOf(sample: number | undefined): number[] {
  const rows: number[] = [];
  if (sample === undefined) return rows;
  right.nearest.value?.assignment.forEach((of, row) => of === sample && rows.push(row));
  return rows;
}

function keepPainted(viewer: Viewer): void {
  let painting: Painting | undefined;
  const apply = (): void => {
    if (!painting) return;
    const { cloud, sample } = painting;
    const isInspecting = picked.value !== undefined;
    if (isInspecting) right.findNearest();
    const compared = pick(cloud, left.shown.value?.rows ?? new Int32Array());
    viewer.paint(isInspecting ? faded(cloud, viewer.backgroundBytes) : cloud, sample, compared);
  };
  const repaint = (): void => {
    painting = paintingOf() ?? painting;
    legend.set(painting?.legend);
    apply();
  };
  const causes = [scene, right.shown, right.nearest, left.shown, settings.color, theme, picked];
  followAll(causes, repaint);
}

/** Undefined while the nearest samples are computed. */
function paintingOf(): Painting | undefined {
  const [current, now, color] = [scene.value, right.shown.value, settings.color.value];
  if (!current) return undefined;
  if (now && (color === "distance" || color === "cell")) {
    right.findNearest();
    const found = right.nearest.value;
    const paint = color === "distance" ? byDistance : byCell;
    return found && paint(found, now.rows.length, isDark());
  }
  const indices = now?.sample.indices ?? new Int32Array();
  return byColumn(current.cloud, current.framed, indices, color, isDark());
}

function startTools(viewer: Viewer): void {
  bindRadios("layout", settings.layout);
  settings.layout.follow((layout) => {
    viewer.layout = layout;
    viewer.draw();
  });
  settings.size.follow((size) => {
    viewer.size = size;
    viewer.draw();
  });
  const resize = (factor: number): void => {
    const size = Math.max(0.5, Math.min(12, settings.size.value * factor));
    settings.size.set(Math.round(100 * size) / 100);
  };
  element("smaller", "button").addEventListener("click", () => resize(1 / 1.25));
  element("larger", "button").addEventListener("click", () => resize(1.25));
  element("reset", "button").addEventListener("click", () => {
    viewer.orbit.reset();
    viewer.move();
  });
}

/** A press that hardly moves is a click, not a turn of the view. */
function pickOnClick(canvas: HTMLCanvasElement, viewer: Viewer): void {
  let pressed = { x: 0, y: 0 };
  canvas.addEventListener("pointerdown", ({ offsetX: x, offsetY: y }) => (pressed = { x, y }));
  canvas.addEventListener("click", ({ offsetX: x, offsetY: y }) => {
    if (Math.hypot(x - pressed.x, y - pressed.y) <= 4) picked.set(viewer.sampleAt(x, y));
  });
}
