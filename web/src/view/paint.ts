// The colors of a cloud and its samples, and the legend that explains them.

import type { Cloud, Values } from "../cloud/cloud";
import type { Nearest } from "../nearest/nearest";
import { colormap, paint, range, type Map256 } from "./colormap";
import type { Framed } from "./framing";

export type Coloring = "height" | "intensity" | "rgb" | "distance";

/** A title alone, or one with a scale. */
export interface Legend {
  readonly title: string;
  readonly scale?: { readonly low: number; readonly high: number; readonly map: Map256 };
}

/** RGB per row of the cloud, and per sample in order of choice. */
export interface Painting {
  readonly cloud: Uint8Array;
  readonly sample: Uint8Array;
  readonly legend?: Legend;
}

const INTENSITY = ["intensity", "i", "reflectivity", "reflectance", "scalar_intensity", "signal"];
const COLORS = [
  ["red", "green", "blue"],
  ["r", "g", "b"],
  ["diffuse_red", "diffuse_green", "diffuse_blue"],
];

function column(cloud: Cloud, name: string): Values | undefined {
  return [...cloud.attributes].find(([key]) => key.toLowerCase() === name)?.[1];
}

export function intensityOf(cloud: Cloud): Values | undefined {
  return INTENSITY.map((name) => column(cloud, name)).find(Boolean);
}

/** RGB of a cloud, however its file spells it. */
export function rgbOf(cloud: Cloud): Uint8Array | undefined {
  const packed = column(cloud, "rgb") ?? column(cloud, "rgba");
  if (packed?.length === cloud.count && packed.BYTES_PER_ELEMENT === 4) {
    const bits = new Uint32Array(packed.buffer, packed.byteOffset, packed.length);
    return Uint8Array.from(
      { length: 3 * cloud.count },
      (_, i) => (bits[(i / 3) | 0]! >> (16 - 8 * (i % 3))) & 255,
    );
  }
  const parts = COLORS.map((names) => names.map((name) => column(cloud, name))).find((found) =>
    found.every(Boolean),
  ) as Values[] | undefined;
  if (!parts) return undefined;
  const highest = Math.max(...parts.map((values) => range(values, 0, 1)[1]));
  // A column may have 16 bits.
  const scale = highest <= 1 ? 255 : highest <= 255 ? 1 : 255 / 65535;
  return Uint8Array.from({ length: 3 * cloud.count }, (_, i) =>
    Math.min(255, parts[i % 3]![(i / 3) | 0]! * scale),
  );
}

/** The colors of chosen rows. */
export function pick(colors: Uint8Array, rows: Int32Array): Uint8Array {
  const some = new Uint8Array(3 * rows.length);
  rows.forEach((row, i) => {
    for (let k = 0; k < 3; k++) some[3 * i + k] = colors[3 * row + k]!;
  });
  return some;
}

/** Colors by what each point has: height, intensity or its own color. */
export function byColumn(
  cloud: Cloud,
  framed: Framed,
  rows: Int32Array,
  color: Coloring,
  dark: boolean,
): Painting {
  const rgb = color === "rgb" && rgbOf(cloud);
  if (rgb) return { cloud: rgb, sample: pick(rgb, rows) };
  const intensity = color === "intensity" && intensityOf(cloud);
  const values = intensity || heights(cloud, framed);
  const [low, high] = range(values);
  const map = colormap("place", dark);
  const all = paint(values, low, high, map);
  const title = intensity ? "Intensity" : `Height${cloud.unit ? `, ${cloud.unit}` : ""}`;
  return { cloud: all, sample: pick(all, rows), legend: { title, scale: { low, high, map } } };
}

function heights({ points, count }: Cloud, { fromCamera, finite }: Framed): Float32Array {
  const of = fromCamera ? (i: number) => -points[3 * i + 1]! : (i: number) => points[3 * i + 2]!;
  return Float32Array.from({ length: count }, (_, i) => (finite[i] ? of(i) : NaN));
}

/** Colors by the distance to the nearest sample; a sample has that of the farthest point of its cell. */
export function byDistance(nearest: Nearest, samples: number, dark: boolean): Painting {
  const map = colormap("amount", dark);
  const reach = new Float32Array(samples);
  nearest.assignment.forEach((sample, i) => {
    if (sample >= 0) reach[sample] = Math.max(reach[sample]!, nearest.distance[i]!);
  });
  const high = nearest.radius;
  return {
    cloud: paint(nearest.distance, 0, high, map),
    sample: paint(reach, 0, high, map),
    legend: { title: "Distance to the nearest sample", scale: { low: 0, high, map } },
  };
}
