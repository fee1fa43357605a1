// Keeps the pictures at what is chosen: cloud, samples, colors.

import { bindRadios, element } from "../base/dom";
import { followAll, Signal } from "../base/signal";
import { isDark, theme } from "../base/theme";
import { scene } from "../state/session";
import { settings } from "../state/settings";
import { left, right } from "../state/shown";
import { gather } from "../view/framing";
import { byColumn, byDistance, pick, type Legend, type Painting } from "../view/paint";
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
}

function keepPainted(viewer: Viewer): void {
  let painting: Painting | undefined;
  const repaint = (): void => {
    painting = paintingOf() ?? painting;
    legend.set(painting?.legend);
    if (!painting) return;
    const { cloud, sample } = painting;
    viewer.paint(cloud, sample, pick(cloud, left.shown.value?.rows ?? new Int32Array()));
  };
  const causes = [scene, right.shown, right.nearest, left.shown, settings.color, theme];
  followAll(causes, repaint);
}

/** Undefined while the nearest samples are computed. */
function paintingOf(): Painting | undefined {
  const [current, now, color] = [scene.value, right.shown.value, settings.color.value];
  if (!current) return undefined;
  if (now && color === "distance") {
    right.findNearest();
    const found = right.nearest.value;
    return found && byDistance(found, now.rows.length, isDark());
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
