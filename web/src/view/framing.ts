// A cloud in the coordinates of the picture: around its middle, with z upwards.

import type { Cloud } from "../cloud/cloud";

export interface Framed {
  /** Float32, around the median of the cloud; rows that are not finite are at 0. */
  readonly positions: Float32Array;
  /** Coordinates as the server measures: float64 is shifted to the first finite point. */
  readonly measured: Float32Array;
  readonly finite: Uint8Array;
  /** Positions of some points, without the few that are very far out: the first view shows these. */
  readonly core: Float32Array;
  readonly radius: number;
  /** Direction of the first view. */
  readonly toward: readonly [number, number, number];
  /** A depth camera's cloud has z ahead and y down in its file. */
  readonly fromCamera: boolean;
}

const SOME = 5000;
/** The first view may cut the points beyond a quantile that are far out. */
const [QUANTILES, FAR] = [[1, 0.998, 0.99], 1.6];

export function frame(cloud: Cloud, finite: Uint8Array): Framed {
  const rows = finiteRows(finite);
  const middle = [0, 1, 2].map((k) => quantile(rows, (row) => cloud.points[3 * row + k]!, 0.5));
  const away = (row: number): number =>
    Math.hypot(...middle.map((m, k) => cloud.points[3 * row + k]! - m));
  const reaches = QUANTILES.map((part) => quantile(rows, away, part));
  const near = FAR * reaches.at(-1)!;
  const radius = Math.max(
    reaches.find((reach) => reach <= near)!,
    1e-6,
  );
  const fromCamera = isCameraFrame(cloud, rows);
  const positions = shifted(cloud, finite, middle);
  if (fromCamera) raise(positions);
  const core = rows.filter((row) => away(row) <= radius);
  return {
    positions,
    measured:
      cloud.points instanceof Float32Array
        ? cloud.points
        : shifted(cloud, finite, [...cloud.points.slice(3 * finite.indexOf(1)).slice(0, 3)]),
    finite,
    core: gather(positions, core),
    radius,
    toward: fromCamera ? [0, 1, 0] : [0.73, 0.35, -0.59],
    fromCamera,
  };
}

/** Positions of some rows. */
export function gather(positions: Float32Array, rows: ArrayLike<number>): Float32Array {
  const some = new Float32Array(3 * rows.length);
  for (let i = 0; i < rows.length; i++)
    for (let k = 0; k < 3; k++) some[3 * i + k] = positions[3 * rows[i]! + k]!;
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
