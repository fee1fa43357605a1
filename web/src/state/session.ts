// The cloud of the page, its settings and its samples. A new choice ends the call before it.

import { count, megabytes } from "../base/format";
import { followAll, Signal } from "../base/signal";
import { finiteRows, type Cloud } from "../cloud/cloud";
import { openFile, openStreet } from "../cloud/open";
import { CallError } from "../rpc/connect";
import { isPrefixed, sample, type Method, type Request, type Sample } from "../rpc/sampling";
import { frame, type Framed } from "../view/framing";
import type { Coloring } from "../view/paint";
import { info, link, noticeFailure } from "./connection";

export const settings = {
  method: new Signal<Method>("farthest"),
  /** Shown in the place of the cloud. */
  compare: new Signal<Method | "none">("none"),
  m: new Signal(4096),
  /** Set to suit each cloud; so is `voxel`. */
  radius: new Signal(0),
  voxel: new Signal(0),
  color: new Signal<Coloring>("height"),
};

export interface Scene {
  readonly cloud: Cloud;
  readonly framed: Framed;
  /** How many rows are finite. */
  readonly finite: number;
}

/** A sample as it is drawn. */
export interface Shown {
  readonly sample: Sample;
  /** The rows that are shown, in order of choice. */
  readonly rows: Int32Array;
  /** The covering radius of these rows, if the method gives it. */
  readonly radius: number | undefined;
}

/** Clouds of so many points are sampled whole at once, so that every number of samples is there. */
const MAX_WHOLE = 400_000;
const MIN_PART = 65_536;

export const scene = new Signal<Scene | undefined>(undefined);
const sampled = new Signal<Sample | undefined>(undefined);
const compared = new Signal<Sample | undefined>(undefined);
/** What the right and the left picture show of them. */
export const right = new Signal<Shown | undefined>(undefined);
export const left = new Signal<Shown | undefined>(undefined);
/** One sentence; empty while there is no problem. */
export const problem = new Signal("");
/** What the page waits for; empty while it waits for nothing. */
export const busy = new Signal("");

followAll([sampled, settings.m], () => right.set(shownOf(sampled.value)));
followAll([compared, settings.m], () => left.set(shownOf(compared.value)));

function shownOf(sample: Sample | undefined): Shown | undefined {
  if (!sample) return undefined;
  const { indices, radii, request } = sample;
  const rows = isPrefixed(request.method) ? indices.subarray(0, settings.m.value) : indices;
  return { sample, rows, radius: radii?.[rows.length - 1] };
}

let running = new AbortController();
/** Samples that the running call asks for. */
let asked = 0;
/** While settings are made to suit another cloud. */
let isSettling = false;
let retry: (() => Promise<void>) | undefined;

/** Ends the running work and starts this; a failure becomes the page's problem. */
async function only(doing: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  running.abort();
  const mine = (running = new AbortController());
  problem.set("");
  busy.set(doing);
  retry = undefined;
  try {
    await work(mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    retry = () => only(doing, work);
    problem.set(error instanceof Error ? error.message : "Something went wrong in the page.");
    noticeFailure(error);
  } finally {
    if (running === mine) busy.set("");
  }
}

/** Ends the running call. */
export function cancel(): void {
  running.abort();
  busy.set("");
}

// Work that failed because the server was away continues once it is back.
link.onChange((state) => {
  if (state === "online" && retry && problem.value) void retry();
});

export function chooseFile(file: File): Promise<void> {
  return only(`Reading ${file.name} …`, async (signal) => show(await openFile(file), signal));
}

export function chooseStreet(): Promise<void> {
  return only("Loading the example scan …", async (signal) =>
    show(await openStreet(signal), signal),
  );
}

async function show(cloud: Cloud, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const rows = finiteRows(cloud.points);
  const finite = rows.reduce((sum, one) => sum + one, 0);
  if (!finite) throw new Error(`${cloud.name} has no point with finite coordinates.`);
  const framed = frame(cloud, rows);
  sampled.set(undefined);
  compared.set(undefined);
  isSettling = true;
  const length = Number((framed.radius / 50).toPrecision(1));
  settings.radius.set(length);
  settings.voxel.set(length);
  // A sample of every point shows nothing.
  if (settings.m.value >= finite) settings.m.set(Math.ceil(finite / 8));
  isSettling = false;
  scene.set({ cloud, framed, finite });
  await ask(signal);
}

/** The unit of lengths after a space that does not break; empty where it is not known. */
export function unitOf(): string {
  const unit = scene.value?.cloud.unit;
  return unit ? `\u00a0${unit}` : "";
}

/** Asks for the samples that the settings describe, unless they are there. */
export function resample(): Promise<void> {
  return scene.value && !isSettling ? only("Sampling …", ask) : Promise.resolve();
}

/** Asks for more samples if they are neither there nor on their way. */
export function wantSamples(m: number): void {
  const have = busy.value ? asked : (sampled.value?.indices.length ?? Infinity);
  if (isPrefixed(settings.method.value) && m > have) void resample();
}

async function ask(signal: AbortSignal): Promise<void> {
  busy.set("Sampling …");
  try {
    refuseOversize(scene.value!.cloud);
    const chosen = await answerTo(settings.method.value, signal);
    const other = settings.compare.value;
    compared.set(other === "none" ? undefined : await answerTo(other, signal));
    sampled.set(chosen);
  } catch (error) {
    const away = error instanceof CallError && error.code === "unreachable";
    // The old sample must not pass for the one of the new settings.
    if (!signal.aborted && !away) {
      sampled.set(undefined);
      compared.set(undefined);
    }
    throw error;
  }
}

async function answerTo(method: Method, signal: AbortSignal): Promise<Sample> {
  const request = requestOf(method);
  const found = [sampled.value, compared.value].find(
    (each) =>
      each?.request.method === method &&
      each.request.length === request.length &&
      each.request.samples >= request.samples,
  );
  if (found) return found;
  asked = request.samples;
  const answer = await sample(scene.value!.cloud.points, request, signal);
  signal.throwIfAborted();
  return answer;
}

/** Asks for more samples than are shown: the first of them are the answer for each smaller number. */
function requestOf(method: Method): Request {
  const all = scene.value!.finite;
  const part = Math.max(MIN_PART, 2 ** Math.ceil(Math.log2(settings.m.value)));
  const { radius, voxel } = settings;
  const lengths = { farthest: 0, poisson: radius.value, voxel: voxel.value, random: 0 };
  return {
    method,
    samples: all <= MAX_WHOLE ? all : Math.min(all, part),
    length: lengths[method],
  };
}

/**
 * Refuses what the server would, before a cloud is sent.
 *
 * @throws Error with one sentence.
 */
function refuseOversize({ name, points, count: rows }: Cloud): void {
  const limits = info.value?.limits;
  if (!limits) return;
  const [mostPoints, mostBytes] = [Number(limits.requestPoints), Number(limits.messageBytes)];
  // A message has some fifty bytes more than its coordinates.
  const excess =
    rows > mostPoints
      ? `${count(rows)} points; this server takes ${count(mostPoints)}`
      : points.byteLength + 256 > mostBytes
        ? `${megabytes(points.byteLength)} of coordinates; this server takes ${megabytes(mostBytes)}`
        : "";
  if (excess) throw new Error(`${name} has ${excess} in a call.`);
}
