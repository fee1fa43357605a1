// The calls of the page: Sample, Encode, ListModels and GetServerInfo.

import {
  NonfinitePolicy,
  SamplingService,
  type GetServerInfoResponse,
  type Model,
  type Timings,
} from "../gen/farpoint/v1/sampling_pb";
import { call } from "./connect";
import { float32Of, int32Of, pointsTensor } from "./tensors";

export type Points = Float32Array | Float64Array;

/** Milliseconds; `wire` is what is left of the time that the page waited. */
export interface Took {
  readonly queue: number;
  readonly compute: number;
  readonly convert: number;
  readonly wire: number;
}

export interface Sample {
  /** Rows in order of choice: every prefix is a sample too. */
  readonly indices: Int32Array;
  /** At position i the covering radius of the first i + 1 samples. */
  readonly radii: Float32Array;
  readonly took: Took;
}

export interface SampleSettings {
  readonly samples: number;
  readonly start: number;
  readonly ignoreNonfinite: boolean;
}

export async function sample(
  points: Points,
  settings: SampleSettings,
  signal: AbortSignal,
): Promise<Sample> {
  const since = performance.now();
  const answer = await call(
    SamplingService.method.sample,
    {
      points: pointsTensor(points),
      sampleCounts: [BigInt(settings.samples)],
      startIndices: [BigInt(settings.start)],
      nonfinitePolicy: settings.ignoreNonfinite ? NonfinitePolicy.IGNORE : NonfinitePolicy.REJECT,
      returnDistances: true,
    },
    signal,
  );
  const took = timings(answer.timings, performance.now() - since);
  return { indices: int32Of(answer.indices), radii: float32Of(answer.distances), took };
}

export interface Stage {
  readonly indices: Int32Array;
  /** (S, channels). */
  readonly features: Float32Array;
  readonly channels: number;
  readonly counts: Int32Array;
  readonly distances: Float32Array;
}

export interface Encoding {
  readonly model: string;
  readonly stages: readonly Stage[];
  readonly took: Took;
}

export async function encode(
  points: Points,
  model: string,
  signal: AbortSignal,
): Promise<Encoding> {
  const since = performance.now();
  const answer = await call(
    SamplingService.method.encode,
    { points: pointsTensor(points), model },
    signal,
  );
  const stages = answer.stages.map((stage) => ({
    indices: int32Of(stage.indices),
    features: float32Of(stage.features),
    channels: Number(stage.features?.shape[1] ?? 0),
    counts: int32Of(stage.counts),
    distances: float32Of(stage.meanDistances),
  }));
  return { model: answer.model, stages, took: timings(answer.timings, performance.now() - since) };
}

function timings(given: Timings | undefined, total: number): Took {
  const { queueMs = 0, computeMs = 0, serverMs = 0 } = given ?? {};
  const convert = Math.max(0, serverMs - queueMs - computeMs);
  return { queue: queueMs, compute: computeMs, convert, wire: Math.max(0, total - serverMs) };
}

export async function listModels(signal: AbortSignal): Promise<Model[]> {
  return (await call(SamplingService.method.listModels, {}, signal)).models;
}

export function serverInfo(signal: AbortSignal): Promise<GetServerInfoResponse> {
  return call(SamplingService.method.getServerInfo, {}, signal);
}
