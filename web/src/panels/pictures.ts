// Keeps the pictures, their captions and the legend at what is chosen.

import { bindSelect, element } from "../base/dom";
import { count, measure } from "../base/format";
import { followAll } from "../base/signal";
import type { Method } from "../rpc/sampling";
import { left, right, scene, settings, unitOf, type Shown } from "../state/session";
import { gather } from "../view/framing";
import { intensityOf, painting, rgbOf, type Coloring, type Legend } from "../view/paint";
import { Viewer } from "../view/viewer";

const METHODS: Record<Method, string> = {
  farthest: "Farthest points",
  poisson: "Poisson disks",
  voxel: "Voxel grid",
  random: "Random rows",
};
const NONE = new Int32Array();
const dark = matchMedia("(prefers-color-scheme: dark)");

export function startPictures(): void {
  const canvas = element("canvas", "canvas");
  const viewer = new Viewer(canvas);
  element("no-webgl", "p").hidden = viewer.canDraw;
  element("reset", "button").addEventListener("click", () => viewer.reset());
  scene.onChange((current) => current && viewer.showCloud(current.framed));
  keepSample(viewer);
  keepPainted(viewer, canvas);
  startColors();
  followAll([scene, left, right], showCaptions);
}

/** Draws other points where the answer is another one, more or fewer of them otherwise. */
function keepSample(viewer: Viewer): void {
  for (const [which, side] of [
    ["sample", right],
    ["compared", left],
  ] as const) {
    let drawn: Shown["sample"] | undefined;
    side.onChange((now) => {
      const isNew = now?.sample !== drawn;
      drawn = now?.sample;
      const positions = scene.value?.framed.positions ?? new Float32Array();
      const points = isNew ? gather(positions, drawn?.indices ?? NONE) : undefined;
      viewer.showSample(which, now?.rows.length ?? 0, points);
    });
  }
}

function keepPainted(viewer: Viewer, canvas: HTMLCanvasElement): void {
  const repaint = (): void => {
    viewer.setBackground(getComputedStyle(canvas).backgroundColor);
    const current = scene.value;
    if (!current) return;
    const { cloud, framed } = current;
    const { colors, legend } = painting(cloud, framed, settings.color.value, dark.matches);
    const [sample, compared] = [right, left].map((side) =>
      gather(colors, side.value?.sample.indices ?? NONE),
    );
    viewer.paint(colors, sample!, compared!);
    showLegend(legend);
  };
  dark.addEventListener("change", repaint);
  followAll([scene, settings.color], repaint);
  for (const side of [left, right]) {
    let painted: Shown["sample"] | undefined;
    side.onChange((now) => {
      if (now?.sample !== painted) repaint();
      painted = now?.sample;
    });
  }
}

/** Colors that the cloud lacks cannot be chosen. */
function startColors(): void {
  const select = bindSelect<Coloring>("color", settings.color);
  scene.onChange((current) => {
    const has = {
      intensity: current && intensityOf(current.cloud),
      rgb: current && rgbOf(current.cloud),
    };
    for (const option of select.options) {
      option.disabled = option.value !== "height" && !has[option.value as keyof typeof has];
      if (option.disabled && option.selected) settings.color.set("height");
    }
  });
}

function captionOf(now: Shown | undefined): string {
  if (!now) return "";
  const within = now.radius === undefined ? "" : ` · radius ${measure(now.radius)}${unitOf()}`;
  return `${METHODS[now.sample.request.method]} · ${count(now.rows.length)}${within}`;
}

function showCaptions(): void {
  const cloud = scene.value?.cloud;
  const first = captionOf(left.value) || (cloud ? `Cloud · ${count(cloud.count)}` : "");
  const second = captionOf(right.value);
  element("caption-cloud", "p").textContent = first;
  element("caption-sample", "p").textContent = second;
  const text = [first && `${first} of ${cloud!.name}`, second].filter(Boolean).join(", next to ");
  element("canvas", "canvas").setAttribute("aria-label", text || "No cloud yet");
}

function showLegend(legend: Legend | undefined): void {
  element("legend", "div").hidden = !legend;
  if (!legend) return;
  const { title, low, high, map } = legend;
  const stops = Array.from({ length: 12 }, (_, i) => {
    const at = 3 * Math.round((255 * i) / 11);
    return `rgb(${map[at]} ${map[at + 1]} ${map[at + 2]})`;
  });
  const ramp = element("legend-ramp", "div");
  ramp.style.backgroundImage = `linear-gradient(90deg, ${stops.join(", ")})`;
  element("legend-title", "p").textContent = title;
  element("legend-low", "span").textContent = measure(low);
  element("legend-high", "span").textContent = measure(high);
}
