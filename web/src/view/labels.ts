// What is written around the pictures: captions, legend, the state of the page, names for screen readers.

import { busy, sampled, scene } from "../session";
import { settings } from "../state";
import { bindRadios, element } from "../ui/dom";
import { count, measure, plural } from "../ui/format";
import { legend, shown } from "./pictures";
import { possible } from "./paintings";

const COLOR_NAMES = {
  height: "height",
  intensity: "intensity",
  rgb: "its own colors",
  distance: "distance to the nearest sample",
  cell: "Voronoi cell",
};

export function startLabels(): void {
  for (const signal of [scene, sampled, shown, settings.layout, settings.color, settings.tab])
    signal.onChange(showCaptions);
  showCaptions();
  legend.follow(showLegend);
  scene.follow(showFacts);
  const colors = bindRadios(
    "color",
    () => settings.color.value,
    (value) => settings.color.set(value as "height"),
  );
  settings.color.onChange(colors);
  busy.follow((text) => {
    element("busy", "p").textContent = text;
    document.body.classList.toggle("waiting", text !== "");
  });
}

function showCaptions(): void {
  const [current, now] = [scene.value, shown.value];
  element("empty", "div").hidden = Boolean(current);
  element("tools", "div").hidden = !current;
  const over = settings.layout.value === "over";
  element("pictures", "div").classList.toggle("over", over);
  const cloud = current ? `Cloud · ${count(current.cloud.count)}` : "";
  const sample = now
    ? `${settings.tab.value === "encode" ? "Kept" : "Sample"} · ${count(now.count)}`
    : "";
  element("caption-cloud", "p").textContent = over && sample ? `${cloud}  ·  ${sample}` : cloud;
  element("caption-sample", "p").textContent = over ? "" : sample;
  const text = current
    ? `${plural(current.cloud.count, "point")} of ${current.cloud.name}${now ? `, ${over ? "under" : "beside"} ${count(now.count)} of them` : ""}, colored by ${COLOR_NAMES[settings.color.value]}`
    : "No cloud yet";
  element("canvas", "canvas").setAttribute("aria-label", text);
}

function showLegend(now: typeof legend.value): void {
  element("legend", "div").hidden = !now;
  if (!now) return;
  const plain = typeof now === "string";
  element("legend-title", "p").textContent = plain ? now : now.title;
  const ramp = element("legend-ramp", "div");
  ramp.hidden = plain;
  (element("legend-low", "span").parentElement as HTMLElement).hidden = plain;
  if (plain) return;
  const stops = Array.from({ length: 12 }, (_, i) => {
    const at = 3 * Math.round((255 * i) / 11);
    return `rgb(${now.map[at]} ${now.map[at + 1]} ${now.map[at + 2]})`;
  });
  ramp.style.backgroundImage = `linear-gradient(90deg, ${stops.join(", ")})`;
  element("legend-low", "span").textContent = measure(now.low);
  element("legend-high", "span").textContent = measure(now.high);
}

function showFacts(current: typeof scene.value): void {
  const facts = element("cloud-facts", "p");
  if (!current) return;
  const { cloud } = current;
  const kind = cloud.points instanceof Float64Array ? "float64" : "float32";
  const names = [...cloud.attributes.keys()];
  const some = names.length > 6 ? `${names.slice(0, 6).join(", ")}, …` : names.join(", ");
  facts.replaceChildren(
    strong(cloud.name),
    `${plural(cloud.count, "point")}, ${kind}${some ? `, with ${some}` : ""}`,
  );
  const can = possible(cloud);
  for (const radio of document.querySelectorAll<HTMLInputElement>('input[name="color"]')) {
    radio.disabled = !can[radio.value as keyof typeof can];
  }
  if (!can[settings.color.value]) settings.color.set("height");
}

function strong(text: string): HTMLElement {
  const made = document.createElement("strong");
  made.textContent = text;
  return made;
}
