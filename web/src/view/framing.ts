// A cloud in the coordinates of the picture: around its middle, with z upwards.

import type { Cloud } from "../cloud/cloud";

export interface Framed {
  /** Float32, around the median of the cloud; rows that are not finite are at 0. */
  readonly positions: Float32Array;
  readonly finite: Uint8Array;
  /** Of nearly all points around the middle: the first view shows these. */
  readonly radius: number;
  /** A depth camera's cloud has z ahead and y down in its file. */
  readonly fromCamera: boolean;
}

const SOME = 5000;

export function frame(cloud: Cloud, finite: Uint8Array): Framed {
  const rows = finiteRows(finite);
  const middle = [0, 1, 2].map((k) => quantile(rows, (row) => cloud.points[3 * row + k]!, 0.5));
  const away = (row: number): number =>
    Math.hypot(...middle.map((m, k) => cloud.points[3 * row + k]! - m));
  const radius = Math.max(quantile(rows, away, 0.98), 1e-6);
  const fromCamera = isCameraFrame(cloud, rows);
  const positions = shifted(cloud, finite, middle);
  if (fromCamera) raise(positions);
  return { positions, finite, radius, fromCamera };
}

/** Three values of each of some rows: positions, or colors. */
export function gather<T extends Float32Array | Uint8Array>(values: T, rows: Int32Array): T {
  const Kind = values.constructor as new (length: number) => T;
  const some = new Kind(3 * rows.length);
  for (let i = 0; i < rows.length; i++)
    for (let k = 0; k < 3; k++) some[3 * i + k] = values[3 * rows[i]! + k]!;
  return some;
}

/** At most some thousand rows, spread over the file. */
function finiteRows(finite: Uint8Array): number[] {
  const all = finite.reduce((sum, one) => sum + one, 0);
  const step = Math.max(1, Math.floor(all / SOME));
  const rows: number[] = [];
  for (let row = 0, seen = 0; row < finite.length; row++)
    if (finite[row] && seen++ % step === 0) rows.push(row);
  return rows;
}

function quantile(rows: readonly number[], of: (row: number) => number, part: number): number {
  const sorted = Float64Array.from(rows, of).sort();
  return sorted[Math.round(part * (sorted.length - 1))] ?? 0;
}

function shifted(cloud: Cloud, finite: Uint8Array, origin: readonly number[]): Float32Array {
  const { points } = cloud;
  const positions = new Float32Array(points.length);
  // A loop: Float32Array.from takes a second for two million points.
  for (let i = 0; i < points.length; i++)
    if (finite[(i / 3) | 0]) positions[i] = points[i]! - origin[i % 3]!;
  return positions;
}

/** From x right, y down, z ahead to x right, y ahead, z up. */
function raise(positions: Float32Array): void {
  for (let i = 0; i < positions.length; i += 3)
    [positions[i + 1], positions[i + 2]] = [positions[i + 2]!, -positions[i + 1]!];
}

/** Whether nearly all points lie in the view of a depth camera at the origin. */
function isCameraFrame({ points }: Cloud, rows: readonly number[]): boolean {
  const depth = (row: number): number => points[3 * row + 2]!;
  if (quantile(rows, depth, 0.005) <= 0 || quantile(rows, depth, 0.5) < 0.05) return false;
  const inside = rows.filter((row) => {
    const [x, y, z] = points.subarray(3 * row, 3 * row + 3) as Float32Array;
    return z! > 0 && Math.abs(x! / z!) < 0.9 && Math.abs(y! / z!) < 0.75;
  });
  return inside.length > 0.98 * rows.length;
}
