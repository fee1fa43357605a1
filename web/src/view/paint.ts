// The colors of a cloud and its samples, and the legend that explains them.

import type { Cloud, Values } from "../cloud/cloud";
import type { Framed } from "./framing";

export type Coloring = "height" | "intensity" | "rgb";

export interface Legend {
  readonly title: string;
  readonly low: number;
  readonly high: number;
  /** RGB of 256 values between them. */
  readonly map: Uint8Array;
}

/** RGB per row of the cloud. */
export interface Painting {
  readonly colors: Uint8Array;
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

/** Colors by what each point has: height, intensity or its own color. */
export function painting(cloud: Cloud, framed: Framed, color: Coloring, dark: boolean): Painting {
  const rgb = color === "rgb" && rgbOf(cloud);
  if (rgb) return { colors: rgb };
  const intensity = color === "intensity" && intensityOf(cloud);
  const values = intensity || heights(cloud, framed);
  const [low, high] = range(values);
  const map = viridis(dark);
  const title = intensity ? "Intensity" : `Height${cloud.unit ? `, ${cloud.unit}` : ""}`;
  return { colors: paint(values, low, high, map), legend: { title, low, high, map } };
}

function heights({ points, count }: Cloud, { fromCamera, finite }: Framed): Float32Array {
  const of = fromCamera ? (i: number) => -points[3 * i + 1]! : (i: number) => points[3 * i + 2]!;
  return Float32Array.from({ length: count }, (_, i) => (finite[i] ? of(i) : NaN));
}

// A least-squares polynomial of matplotlib's table by Matt Zucker, public domain.
const VIRIDIS = [
  [0.2777273272234177, 0.005407344544966578, 0.3340998053353061],
  [0.1050930431085774, 1.404613529898575, 1.384590162594685],
  [-0.3308618287255563, 0.214847559468213, 0.09509516302823659],
  [-4.634230498983486, -5.799100973351585, -19.33244095627987],
  [6.228269936347081, 14.17993336680509, 56.69055260068105],
  [4.776384997670288, -13.74514537774601, -65.35303263337234],
  [-5.435455855934631, 4.645852612178535, 26.3124352495832],
];

/** Without the end that would vanish on the background. */
function viridis(dark: boolean): Uint8Array {
  const [from, to] = dark ? [0.22, 1] : [0, 0.88];
  const colors = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const t = from + ((to - from) * i) / 255;
    for (let k = 0; k < 3; k++) {
      const value = VIRIDIS.reduceRight((sum, term) => sum * t + term[k]!, 0);
      colors[3 * i + k] = Math.round(255 * Math.min(1, Math.max(0, value)));
    }
  }
  return colors;
}

/** Values within `low` to `high` as RGB; values outside take the ends. */
function paint(values: ArrayLike<number>, low: number, high: number, map: Uint8Array): Uint8Array {
  const colors = new Uint8Array(3 * values.length);
  const scale = high > low ? 255 / (high - low) : 0;
  for (let i = 0; i < values.length; i++) {
    const at = 3 * Math.max(0, Math.min(255, Math.round((values[i]! - low) * scale)) || 0);
    colors[3 * i] = map[at]!;
    colors[3 * i + 1] = map[at + 1]!;
    colors[3 * i + 2] = map[at + 2]!;
  }
  return colors;
}

/** Quantiles of the finite values, estimated from at most 20 000 of them. */
function range(values: ArrayLike<number>, low = 0.01, high = 0.99): [number, number] {
  const step = Math.max(1, Math.floor(values.length / 20_000));
  const some: number[] = [];
  for (let i = 0; i < values.length; i += step)
    if (Number.isFinite(values[i]!)) some.push(values[i]!);
  if (!some.length) return [0, 1];
  const sorted = Float64Array.from(some).sort();
  const at = (part: number): number => sorted[Math.round(part * (sorted.length - 1))]!;
  return [at(low), at(high)];
}
