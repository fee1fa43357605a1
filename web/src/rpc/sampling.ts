// The calls of the page: Sample and GetServerInfo.

import {
  NonfinitePolicy,
  SamplingMethod,
  SamplingService,
  type GetServerInfoResponse,
  type Timings,
} from "../gen/farpoint/v1/sampling_pb";
import { DataType, type Tensor } from "../gen/farpoint/v1/tensor_pb";
import { call } from "./connect";

export type Method = "farthest" | "poisson" | "voxel" | "random";
type Points = Float32Array | Float64Array;

/** What a sample is asked for with. */
export interface Request {
  readonly method: Method;
  /** Of methods whose first samples are the answer for fewer samples. */
  readonly samples: number;
  /** The radius of Poisson disks, the size of voxels, else 0. */
  readonly length: number;
}

/** Milliseconds; `wire` is the rest of the time that the page waited. */
export interface Took {
  readonly queue: number;
  readonly compute: number;
  readonly convert: number;
  readonly wire: number;
}

export interface Sample {
  readonly request: Request;
  readonly indices: Int32Array;
  /** At position i the covering radius of the first i + 1 samples, if the method gives it. */
  readonly radii?: Float32Array;
  readonly took: Took;
}

/** Whether the first samples of an answer are the answer for fewer samples. */
export function isPrefixed(method: Method): boolean {
  return method === "farthest" || method === "random";
}

const METHODS = {
  farthest: SamplingMethod.FARTHEST_POINT,
  poisson: SamplingMethod.POISSON_DISK,
  voxel: SamplingMethod.VOXEL_GRID,
  random: SamplingMethod.RANDOM,
};

/** Rows that are not finite are skipped. */
export async function sample(
  points: Points,
  request: Request,
  signal: AbortSignal,
): Promise<Sample> {
  const { method, samples, length } = request;
  const hasRadii = method === "farthest" || method === "poisson";
  const since = performance.now();
  const answer = await call(
    SamplingService.method.sample,
    {
      points: tensorOf(points),
      method: METHODS[method],
      nonfinitePolicy: NonfinitePolicy.IGNORE,
      returnDistances: hasRadii,
      ...(isPrefixed(method) && { sampleCounts: [BigInt(samples)] }),
      ...(method === "poisson" && { coveringRadius: length }),
      ...(method === "voxel" && { voxelGrid: { voxelSize: length } }),
      ...(method === "random" && { seeds: [0n] }),
    },
    signal,
  );
  const took = timings(answer.timings, performance.now() - since);
  const indices = new Int32Array(bufferOf(answer.indices, DataType.INT32));
  if (!hasRadii) return { request, indices, took };
  const radii = new Float32Array(bufferOf(answer.distances, DataType.FLOAT32));
  return { request, indices, radii, took };
}

export function serverInfo(signal: AbortSignal): Promise<GetServerInfoResponse> {
  return call(SamplingService.method.getServerInfo, {}, signal);
}

function timings(given: Timings | undefined, total: number): Took {
  const { queueMs = 0, computeMs = 0, serverMs = 0 } = given ?? {};
  const convert = Math.max(0, serverMs - queueMs - computeMs);
  return { queue: queueMs, compute: computeMs, convert, wire: Math.max(0, total - serverMs) };
}

/** A tensor of shape (N, 3) that shares memory with the points. */
function tensorOf(points: Points): {
  dataType: DataType;
  shape: bigint[];
  data: Uint8Array<ArrayBuffer>;
} {
  const dataType = points instanceof Float64Array ? DataType.FLOAT64 : DataType.FLOAT32;
  const data = new Uint8Array(points.buffer as ArrayBuffer);
  return { dataType, shape: [BigInt(points.length / 3), 3n], data };
}

/** A copy of the data, which may begin at any address. */
function bufferOf(tensor: Tensor | undefined, type: DataType): ArrayBuffer {
  if (tensor?.dataType !== type) throw new Error("The answer has a tensor of another type.");
  return tensor.data.slice().buffer;
}
