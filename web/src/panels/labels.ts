// Texts around the pictures: captions, legend, facts of the cloud, names for screen readers.

import { bindRadios, element } from "../base/dom";
import { count, measure, plural } from "../base/format";
import { followAll } from "../base/signal";
import type { Method } from "../rpc/sampling";
import { compared, scene, unitOf } from "../state/session";
import { settings } from "../state/settings";
import { left, right, type Side } from "../state/shown";
import { intensityOf, rgbOf, type Coloring } from "../view/paint";
import { legend } from "./pictures";

const METHODS: Record<Method, string> = {
  farthest: "Farthest points",
  poisson: "Poisson disks",
  voxel: "Voxel grid",
  random: "Random rows",
};
const COLORS: Record<Coloring, string> = {
  height: "height",
  intensity: "intensity",
  rgb: "its own colors",
  distance: "distance to the nearest sample",
};

export function startLabels(): void {
  bindRadios("color", settings.color);
  const { layout, color } = settings;
  const causes = [scene, left.shown, left.radius, right.shown, right.radius, layout, color];
  followAll(causes, showCaptions);
  followAll([scene, compared], showChoices);
  followAll([legend], showLegend);
  scene.onChange(showFacts);
}

function captionOf(side: Side): string {
  const now = side.shown.value;
  if (!now) return "";
  const radius = side.radius.value;
  const within = radius === undefined ? "" : ` · radius ${measure(radius)}${unitOf()}`;
  return `${METHODS[now.sample.request.method]} · ${count(now.rows.length)}${within}`;
}

function showCaptions(): void {
  const current = scene.value;
  element("tools", "div").hidden = !current;
  const over = settings.layout.value === "over";
  element("pictures", "div").classList.toggle("over", over);
  const cloud = current ? `Cloud · ${count(current.cloud.count)}` : "";
  const first = captionOf(left) || cloud;
  const second = captionOf(right);
  element("caption-cloud", "p").textContent = over && second ? `${first}\n${second}` : first;
  element("caption-sample", "p").textContent = over ? "" : second;
  const shown = second ? `, ${over ? "under" : "next to"} ${second}` : "";
  const text = current
    ? `${captionOf(left) || plural(current.cloud.count, "point")} of ${current.cloud.name}${shown}, colored by ${COLORS[settings.color.value]}`
    : "No cloud yet";
  element("canvas", "canvas").setAttribute("aria-label", text);
}

/** Disables choices that cannot be made now, and says why. */
function showChoices(): void {
  const cloud = scene.value?.cloud;
  const isComparing = Boolean(compared.value);
  const missing = [
    ...(cloud && !intensityOf(cloud) ? ["intensity"] : []),
    ...(cloud && !rgbOf(cloud) ? ["rgb"] : []),
  ];
  const disabled = [...missing, ...(isComparing ? ["distance", "over"] : [])];
  for (const radio of document.querySelectorAll<HTMLInputElement>("[name=color], [name=layout]"))
    radio.disabled = disabled.includes(radio.value);
  const names = missing.map((name) => (name === "rgb" ? "RGB" : name)).join(" or ");
  const reasons = [
    names && `This file has no ${names}.`,
    isComparing && "Distances and overlaid pictures are for a single sample.",
  ];
  element("color-hint", "p").textContent = reasons.filter(Boolean).join(" ");
  if (disabled.includes(settings.color.value)) settings.color.set("height");
  if (isComparing) settings.layout.set("beside");
}

function showLegend(): void {
  const now = legend.value;
  element("legend", "div").hidden = !now;
  element("legend-title", "p").textContent = now?.title ?? "";
  element("legend-scale", "div").hidden = !now?.scale;
  if (!now?.scale) return;
  const { low, high, map } = now.scale;
  const stops = Array.from({ length: 12 }, (_, i) => {
    const at = 3 * Math.round((255 * i) / 11);
    return `rgb(${map[at]} ${map[at + 1]} ${map[at + 2]})`;
  });
  const ramp = element("legend-ramp", "div");
  ramp.style.backgroundImage = `linear-gradient(90deg, ${stops.join(", ")})`;
  element("legend-low", "span").textContent = measure(low);
  element("legend-high", "span").textContent = measure(high);
}

function showFacts(current: typeof scene.value): void {
  if (!current) return;
  const { cloud } = current;
  const kind = cloud.points instanceof Float64Array ? "float64" : "float32";
  const names = [...cloud.attributes.keys()];
  const some = names.slice(0, 6).join(", ") + (names.length > 6 ? ", …" : "");
  element("cloud-name", "strong").textContent = cloud.name;
  element("cloud-facts", "span").textContent =
    `${plural(cloud.count, "point")}, ${kind}${some ? `, with ${some}` : ""}`;
}
