// Worker that finds the nearest samples of all points.

import { nearestSamples, type Nearest } from "./nearest";

export interface Question {
  readonly id: number;
  /** (N, 3), as the server measures. */
  readonly positions: Float32Array;
  /** One byte per point: 0 leaves it out. */
  readonly wanted: Uint8Array;
  /** Rows of the samples. */
  readonly order: Int32Array;
  /** An estimate of the covering radius. */
  readonly guess: number;
}

export type Answer = Nearest & { readonly id: number };

self.onmessage = ({ data }: MessageEvent<Question>): void => {
  const { id, positions, wanted, order, guess } = data;
  const nearest = nearestSamples(positions, wanted, order, guess);
  const transfer = [nearest.assignment.buffer, nearest.distance.buffer] as ArrayBuffer[];
  self.postMessage({ ...nearest, id } satisfies Answer, { transfer });
};
