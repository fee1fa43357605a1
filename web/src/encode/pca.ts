// The first three principal components of features, as red, green and blue.

import { range } from "../view/colormap";

export interface Components {
  /** (S, 3). */
  readonly colors: Uint8Array;
  /** The share of the variance that the three hold. */
  readonly share: number;
}

/** Rounds of orthogonal iteration; more change no color. */
const ROUNDS = 60;

/** @param features (S, channels). */
export function principalColors(features: Float32Array, channels: number): Components {
  const rows = features.length / channels;
  const { mean, covariance } = moments(features, channels, rows);
  const axes = leading(covariance, channels, Math.min(3, channels));
  let total = 0;
  for (let k = 0; k < channels; k++) total += covariance[k * channels + k]!;
  const held = axes.reduce((sum, axis) => sum + dot(axis, multiply(covariance, axis)), 0);
  const colors = new Uint8Array(3 * rows).fill(128);
  axes.forEach((axis, k) => {
    const scores = new Float32Array(rows);
    for (let i = 0; i < rows; i++) {
      let score = 0;
      for (let c = 0; c < channels; c++)
        score += (features[i * channels + c]! - mean[c]!) * axis[c]!;
      scores[i] = score;
    }
    const [low, high] = range(scores, 0.02, 0.98);
    // Neither black nor white, which would vanish on one background.
    for (let i = 0; i < rows; i++) {
      const part = high > low ? Math.max(0, Math.min(1, (scores[i]! - low) / (high - low))) : 0.5;
      colors[3 * i + k] = 45 + 190 * part;
    }
  });
  return { colors, share: total > 0 ? held / total : 0 };
}

function moments(
  features: Float32Array,
  channels: number,
  rows: number,
): { mean: Float64Array; covariance: Float64Array } {
  const mean = new Float64Array(channels);
  for (let i = 0; i < features.length; i++) mean[i % channels]! += features[i]! / rows;
  const covariance = new Float64Array(channels * channels);
  // By some thousand rows the axes are settled.
  const step = Math.max(1, Math.floor(rows / 8000));
  const centered = new Float64Array(channels);
  for (let i = 0; i < rows; i += step) {
    for (let c = 0; c < channels; c++) centered[c] = features[i * channels + c]! - mean[c]!;
    for (let a = 0; a < channels; a++) {
      for (let b = a; b < channels; b++)
        covariance[a * channels + b]! += centered[a]! * centered[b]!;
    }
  }
  for (let a = 0; a < channels; a++)
    for (let b = 0; b < a; b++) covariance[a * channels + b] = covariance[b * channels + a]!;
  return { mean, covariance };
}

/** Orthonormal axes of the largest eigenvalues, each with its largest entry positive. */
function leading(matrix: Float64Array, size: number, count: number): Float64Array[] {
  // Any start will do that is not orthogonal to the axes; this one is the same each time.
  let axes: Float64Array[] = Array.from({ length: count }, (_, k) =>
    Float64Array.from({ length: size }, (_, i) => Math.sin(1 + i * (k + 1) * 1.7)),
  );
  for (let round = 0; round < ROUNDS; round++)
    axes = orthonormal(axes.map((axis) => multiply(matrix, axis)));
  return axes.map((axis) => {
    const largest = axis.reduce(
      (best, value) => (Math.abs(value) > Math.abs(best) ? value : best),
      0,
    );
    return largest < 0 ? axis.map((value) => -value) : axis;
  });
}

function orthonormal(axes: Float64Array[]): Float64Array[] {
  const done: Float64Array[] = [];
  for (const axis of axes) {
    for (const other of done) {
      const along = dot(axis, other);
      for (let i = 0; i < axis.length; i++) axis[i]! -= along * other[i]!;
    }
    const length = Math.sqrt(dot(axis, axis)) || 1;
    done.push(axis.map((value) => value / length));
  }
  return done;
}

function multiply(matrix: Float64Array, vector: Float64Array): Float64Array {
  return vector.map((_, row) =>
    dot(matrix.subarray(row * vector.length, (row + 1) * vector.length), vector),
  );
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
