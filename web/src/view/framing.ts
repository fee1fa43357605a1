// Where a cloud is first seen from, whatever its size and place.

import type { Cloud } from "../cloud/cloud";

/** Coordinates for the picture: float32 around the middle of the cloud. */
export interface Framed {
  readonly positions: Float32Array;
  /** As the server measures: float64 is shifted to the first finite point before it is narrowed. */
  readonly measured: Float32Array;
  readonly finite: Uint8Array;
  /** Of what is worth framing: a scan has few points very far out. */
  readonly center: readonly [number, number, number];
  readonly radius: number;
  /** A depth camera's cloud, with z ahead and y down, is looked at from its camera. */
  readonly fromCamera: boolean;
}

const SOME = 20_000;

export function frame(cloud: Cloud, finite: Uint8Array): Framed {
  const rows = finiteSample(finite);
  const axes = [0, 1, 2].map((k) =>
    Float64Array.from(rows, (row) => cloud.points[3 * row + k]!).sort(),
  );
  const origin = axes.map((values) => at(values, 0.5));
  const away = Float64Array.from(rows, (row) =>
    Math.hypot(...origin.map((o, k) => cloud.points[3 * row + k]! - o)),
  ).sort();
  const core =
    at(away, 0.98) <= 3 * at(away, 0.5) ? Infinity : Math.min(at(away, 0.95), 2.8 * at(away, 0.5));
  const near = rows.filter(
    (row) => Math.hypot(...origin.map((o, k) => cloud.points[3 * row + k]! - o)) <= core,
  );
  const spans = origin.map((o, k) => {
    const values = Float64Array.from(near, (row) => cloud.points[3 * row + k]! - o).sort();
    return [at(values, 0.005), at(values, 0.995)] as const;
  });
  const radius = Math.max(Math.hypot(...spans.map(([low, high]) => high - low)) / 2, 1e-6);
  return {
    positions: positionsOf(cloud, finite, origin),
    measured:
      cloud.points instanceof Float32Array
        ? cloud.points
        : positionsOf(cloud, finite, firstFinite(cloud.points, finite)),
    finite,
    center: spans.map(([low, high]) => (low + high) / 2) as [number, number, number],
    radius,
    fromCamera: isCameraFrame(cloud, rows, at(axes[2]!, 0.005), at(axes[2]!, 0.5)),
  };
}

function finiteSample(finite: Uint8Array): Int32Array {
  const step = Math.max(1, Math.floor(finite.length / SOME));
  const rows: number[] = [];
  for (let row = 0; row < finite.length; row += step) if (finite[row]) rows.push(row);
  // A cloud of few finite rows may show none of them at that step.
  if (!rows.length)
    for (let row = 0; row < finite.length && rows.length < SOME; row++)
      if (finite[row]) rows.push(row);
  return Int32Array.from(rows);
}

function at(sorted: Float64Array, part: number): number {
  return sorted.length ? sorted[Math.round(part * (sorted.length - 1))]! : 0;
}

function positionsOf(cloud: Cloud, finite: Uint8Array, origin: readonly number[]): Float32Array {
  const positions = new Float32Array(cloud.points.length);
  for (let row = 0; row < cloud.count; row++) {
    for (let k = 0; k < 3; k++) {
      // Rows without a place are never drawn.
      positions[3 * row + k] = finite[row] ? cloud.points[3 * row + k]! - origin[k]! : 0;
    }
  }
  return positions;
}

function firstFinite(points: Float64Array, finite: Uint8Array): number[] {
  const first = finite.indexOf(1);
  return [0, 1, 2].map((k) => points[3 * first + k]!);
}

/** Whether nearly all points lie in the view of a depth camera at the origin. */
function isCameraFrame(cloud: Cloud, rows: Int32Array, nearest: number, depth: number): boolean {
  if (nearest <= 0 || depth < 0.05) return false;
  const inside = rows.filter((row) => {
    const [x, y, z] = [
      cloud.points[3 * row]!,
      cloud.points[3 * row + 1]!,
      cloud.points[3 * row + 2]!,
    ];
    return z > 0 && Math.abs(x / z) < 0.9 && Math.abs(y / z) < 0.75;
  });
  return inside.length > 0.98 * rows.length;
}
