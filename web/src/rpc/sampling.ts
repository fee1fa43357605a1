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

/** What a sample is asked for with; a method takes some of the numbers and ignores the others. */
export interface Request {
  readonly method: Method;
  readonly samples: number;
  readonly start: number;
  readonly radius: number;
  readonly voxelSize: number;
  readonly seed: number;
  readonly ignoreNonfinite: boolean;
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

/** Whether two requests of enough samples have the same answer. */
export function isSame(one: Request, other: Request): boolean {
  const kept = ({ method, ignoreNonfinite, ...numbers }: Request): string =>
    JSON.stringify([method, ignoreNonfinite, ...USES[method].map((name) => numbers[name])]);
  return kept(one) === kept(other);
}

const USES = {
  farthest: ["start"],
  poisson: ["start", "radius"],
  voxel: ["voxelSize"],
  random: ["seed"],
} as const;
const METHODS = {
  farthest: SamplingMethod.FARTHEST_POINT,
  poisson: SamplingMethod.POISSON_DISK,
  voxel: SamplingMethod.VOXEL_GRID,
  random: SamplingMethod.RANDOM,
};

export async function sample(
  points: Points,
  request: Request,
  signal: AbortSignal,
  onSent: (share: number) => void,
): Promise<Sample> {
  const { method, samples, start, radius, voxelSize, seed, ignoreNonfinite } = request;
  const hasRadii = method === "farthest" || method === "poisson";
  const since = performance.now();
  const answer = await call(
    SamplingService.method.sample,
    {
      points: tensorOf(points),
      method: METHODS[method],
      nonfinitePolicy: ignoreNonfinite ? NonfinitePolicy.IGNORE : NonfinitePolicy.REJECT,
      returnDistances: hasRadii,
      ...(isPrefixed(method) && { sampleCounts: [BigInt(samples)] }),
      ...(hasRadii && { startIndices: [BigInt(start)] }),
      ...(method === "poisson" && { coveringRadius: radius }),
      ...(method === "voxel" && { voxelGrid: { voxelSize } }),
      ...(method === "random" && { seeds: [BigInt(seed)] }),
    },
    signal,
    onSent,
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
  const data = new Uint8Array(points.buffer as ArrayBuffer, points.byteOffset, points.byteLength);
  return { dataType, shape: [BigInt(points.length / 3), 3n], data };
}

/** A copy of the data, which may begin at any address. */
function bufferOf(tensor: Tensor | undefined, type: DataType): ArrayBuffer {
  if (tensor?.dataType !== type) throw new Error("The answer has a tensor of another type.");
  return tensor.data.slice().buffer;
}
