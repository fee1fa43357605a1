// The colors of a cloud and its sample, and the legend that explains them.

import type { Cloud, Values } from "../cloud/cloud";
import type { Nearest } from "../sample/nearest";
import type { Coloring } from "../state";
import type { Framed } from "./framing";
import { cellColor, colormap, paint, range, type Map256 } from "./colormap";

export interface Legend {
  readonly title: string;
  readonly low: number;
  readonly high: number;
  readonly map: Map256;
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
  // LAS has 16 bits, of which many files use eight.
  const scale = highest <= 1 ? 255 : highest <= 255 ? 1 : 255 / 65535;
  return Uint8Array.from({ length: 3 * cloud.count }, (_, i) =>
    Math.min(255, parts[i % 3]![(i / 3) | 0]! * scale),
  );
}

/** The colors of chosen rows. */
export function chosen(colors: Uint8Array, rows: Int32Array): Uint8Array {
  const some = new Uint8Array(3 * rows.length);
  rows.forEach((row, i) => {
    for (let k = 0; k < 3; k++) some[3 * i + k] = colors[3 * row + k]!;
  });
  return some;
}

/** Upwards in the picture, in the coordinates of the file. */
export function heights(cloud: Cloud, framed: Framed): Float32Array {
  const axis = framed.fromCamera ? 1 : 2;
  const sign = framed.fromCamera ? -1 : 1;
  return Float32Array.from({ length: cloud.count }, (_, i) =>
    framed.finite[i] ? sign * cloud.points[3 * i + axis]! : NaN,
  );
}

/** By a value that each point has. */
export function byValue(
  title: string,
  values: ArrayLike<number>,
  rows: Int32Array,
  dark: boolean,
): Painting {
  const [low, high] = range(values);
  const map = colormap("place", dark);
  const cloud = paint(values, low, high, map);
  return { cloud, sample: chosen(cloud, rows), legend: { title, low, high, map } };
}

/** By how far the nearest sample is; a sample has the color of the farthest point it stands for. */
export function byDistance(
  nearest: Nearest,
  samples: number,
  radius: number,
  dark: boolean,
): Painting {
  const map = colormap("amount", dark);
  const reach = new Float32Array(samples);
  nearest.assignment.forEach((sample, i) => {
    if (sample >= 0) reach[sample] = Math.max(reach[sample]!, nearest.distance[i]!);
  });
  const legend = { title: "Distance to the nearest sample", low: 0, high: radius, map };
  return {
    cloud: paint(nearest.distance, 0, radius, map),
    sample: paint(reach, 0, radius, map),
    legend,
  };
}

export function byCell(nearest: Nearest, samples: number, dark: boolean): Painting {
  const sample = new Uint8Array(3 * samples);
  for (let i = 0; i < samples; i++) sample.set(cellColor(i, dark), 3 * i);
  return { cloud: spread(sample, nearest.assignment), sample };
}

/** Each point in the color of its sample. */
export function spread(sample: Uint8Array, assignment: Int32Array): Uint8Array {
  const cloud = new Uint8Array(3 * assignment.length);
  assignment.forEach((of, i) => {
    for (let k = 0; k < 3; k++) cloud[3 * i + k] = of < 0 ? 0 : sample[3 * of + k]!;
  });
  return cloud;
}

/** The points of one sample in full color, all others faded into the background. */
export function spotlight(
  cloud: Uint8Array,
  assignment: Int32Array,
  sample: number,
  background: readonly number[],
): Uint8Array {
  const lit = new Uint8Array(cloud.length);
  for (let i = 0; i < assignment.length; i++) {
    const mine = assignment[i] === sample;
    for (let k = 0; k < 3; k++)
      lit[3 * i + k] = mine ? [235, 64, 110][k]! : 0.25 * cloud[3 * i + k]! + 0.75 * background[k]!;
  }
  return lit;
}

/** What a cloud can be colored by. */
export function possible(cloud: Cloud): Record<Coloring, boolean> {
  return {
    height: true,
    intensity: Boolean(intensityOf(cloud)),
    rgb: Boolean(rgbOf(cloud)),
    distance: true,
    cell: true,
  };
}
