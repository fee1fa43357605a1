// Worker that finds the nearest samples of all points.

import { followStages, nearestSamples } from "./nearest";

export interface NearestQuestion {
  readonly id: number;
  readonly positions: Float32Array;
  readonly wanted: Uint8Array;
  /** Rows of the samples; several where samples were sampled again, stage by stage. */
  readonly orders: readonly Int32Array[];
  /** The covering radius; 0 where it is not known. */
  readonly guess: number;
}

export interface NearestAnswer {
  readonly id: number;
  readonly assignment: Int32Array;
  readonly distance: Float32Array;
}

self.onmessage = ({ data }: MessageEvent<NearestQuestion>): void => {
  const { positions, wanted, orders, guess } = data;
  const { assignment, distance } =
    guess > 0
      ? nearestSamples(positions, wanted, orders[0]!, guess)
      : followStages(positions, wanted, orders);
  const answer: NearestAnswer = { id: data.id, assignment, distance };
  self.postMessage(answer, {
    transfer: [assignment.buffer as ArrayBuffer, distance.buffer as ArrayBuffer],
  });
};
