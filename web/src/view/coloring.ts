// Which colors the choices of a tab give: those that need the nearest samples say so.

import { principalColors, type Components } from "../encode/pca";
import type { Stage } from "../rpc/sampling";
import type { Nearest } from "../sample/nearest";
import type { Scene } from "../session";
import type { Coloring, Features } from "../state";
import { colormap, paint, range } from "./colormap";
import {
  byCell,
  byDistance,
  byValue,
  chosen,
  heights,
  intensityOf,
  rgbOf,
  spread,
  type Legend,
  type Painting,
} from "./paintings";

/** What is drawn as the sample: rows in order, and how many of them. */
export interface Shown {
  readonly rows: Int32Array;
  readonly count: number;
  /** Of the samples that are shown; 0 where it is not known. */
  readonly radius: number;
}

export interface Colored {
  readonly painting: Painting;
  /** Instead of a legend with a scale. */
  readonly text?: string;
}

/** Undefined where the nearest samples have to be known and are not. */
export function colorsOfSample(
  { cloud, framed }: Scene,
  now: Shown | undefined,
  found: Nearest | undefined,
  color: Coloring,
  dark: boolean,
): Colored | undefined {
  const rows = now?.rows ?? new Int32Array();
  if (now && (color === "cell" || color === "distance")) {
    if (!found) return undefined;
    if (color === "distance") return { painting: byDistance(found, now.count, now.radius, dark) };
    return {
      painting: byCell(found, now.count, dark),
      text: "Each point in the color of its sample",
    };
  }
  const intensity = color === "intensity" && intensityOf(cloud);
  if (intensity) return { painting: byValue("Intensity", intensity, rows, dark) };
  const rgb = color === "rgb" && rgbOf(cloud);
  if (rgb) return { painting: { cloud: rgb, sample: chosen(rgb, rows) } };
  return { painting: byValue("Height", heights(cloud, framed), rows, dark) };
}

const components = new WeakMap<Stage, Components>();

/** Of the points that a stage keeps. */
export function colorsOfKept(
  stage: Stage,
  features: Features,
  dark: boolean,
): { sample: Uint8Array; legend?: Legend; text?: string } {
  if (features === "features") {
    const found = components.get(stage) ?? principalColors(stage.features, stage.channels);
    components.set(stage, found);
    const share = Math.round(100 * found.share);
    return { sample: found.colors, text: `Three principal components, ${share} % of the variance` };
  }
  const values = features === "counts" ? stage.counts : stage.distances;
  const [low, high] = range(values);
  const map = colormap("amount", dark);
  const title = features === "counts" ? "Points it stands for" : "Mean distance of these";
  return { sample: paint(values, low, high, map), legend: { title, low, high, map } };
}

/** Of the cloud too: each point in the color of the one that stands for it. */
export function colorsOfStage(
  stage: Stage,
  found: Nearest,
  features: Features,
  dark: boolean,
): Colored {
  const { sample, legend, text } = colorsOfKept(stage, features, dark);
  const cloud = spread(sample, found.assignment);
  return {
    painting: legend ? { cloud, sample, legend } : { cloud, sample },
    ...(text ? { text } : {}),
  };
}
