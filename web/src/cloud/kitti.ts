// Headerless float32 rows of three columns, KITTI's four (x y z intensity) or nuScenes' five.

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { converting } from "./formats";
import { readColumns } from "./records";

const NAMES = ["x", "y", "z", "intensity", "ring"];
/** Rows looked at, and the share of the best width's score that a smaller width needs. */
const [ROWS, ENOUGH] = [5000, 0.9];
const VIEWS = [
  (value: number) => value,
  (value: number) => Math.log2(Math.abs(value) + 2 ** -40),
  (value: number) => Number(Number.isInteger(value)),
  (value: number) => Number(value < 0),
];

export function readKitti(name: string, bytes: Uint8Array): Cloud {
  const usual = name.toLowerCase().endsWith(".pcd.bin") ? 5 : 4;
  const fitting = [3, 4, 5, 6, 7, 8].filter((each) => bytes.length % (4 * each) === 0);
  const found = fitting.length === 1 ? fitting[0] : widthOf(bytes, fitting);
  const width = found ?? (usual === 5 && fitting.includes(5) ? 5 : 0);
  if (width !== usual && width !== 3) {
    const rows = width ? `seems to hold rows of ${width}` : `has ${bytes.length} bytes, no rows of`;
    const columns = ["x", "y", "z", "a", "b", "c", "d", "e"].slice(0, width || 8).join();
    const how = fitting.length ? `: ${converting(name, `--columns ${columns}`)}` : "";
    throw new FileError(`${name} ${rows} float32 values, not 3 or ${usual}${how}.`);
  }
  const names = NAMES.slice(0, width);
  const fields = names.map((field, k) => ({ name: field, type: "f4" as const, offset: 4 * k }));
  const columns = readColumns(bytes, bytes.length / 4 / width, 4 * width, fields);
  return { ...cloudOfColumns(name, columns), unit: "m" };
}

/** The smallest width at which each column holds values of one kind; undefined if none does. */
function widthOf(bytes: Uint8Array, widths: readonly number[]): number | undefined {
  const part = bytes.slice(0, bytes.length - (bytes.length % 4)).buffer;
  const values = new Float32Array(part).map((value) => (Number.isFinite(value) ? value : 0));
  const scores = widths.map((width) => separation(someRows(values, width), width));
  const best = Math.max(0, ...scores);
  return best > 0 ? widths[scores.findIndex((score) => score >= ENOUGH * best)] : undefined;
}

/** Rows all over the file, as rows that follow one another are often alike. */
function someRows(values: Float32Array, width: number): Float32Array {
  const count = values.length / width;
  if (count <= ROWS) return values;
  return Float32Array.from({ length: ROWS * width }, (_, i) => {
    // Golden ratio steps: no period of the scanner's.
    const row = Math.floor(((((i / width) | 0) * 0.618033988749895) % 1) * count);
    return values[row * width + (i % width)]!;
  });
}

/** The variance between columns over that of all values, in several views, above chance. */
function separation(values: Float32Array, width: number): number {
  const ratios = VIEWS.map((view) => {
    const seen = Float64Array.from(values, view);
    const sorted = seen.slice().sort();
    const [low, high] = [0.01, 0.99].map((part) => sorted[Math.round(part * (seen.length - 1))]!);
    // Without the few values that would outweigh all others.
    const cut = seen.map((value) => Math.min(high!, Math.max(low!, value)));
    const means = Float64Array.from({ length: width }, (_, k) =>
      mean(cut.filter((_, i) => i % width === k)),
    );
    return variance(means) / (variance(cut) || Infinity);
  });
  return ratios.reduce((sum, ratio) => sum + ratio) - 0.02 - (8 * width) / values.length;
}

function mean(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function variance(values: Float64Array): number {
  const middle = mean(values);
  return mean(values.map((value) => (value - middle) ** 2));
}
