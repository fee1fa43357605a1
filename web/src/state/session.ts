// The cloud of the page and its samples. A new choice ends the call before it.

import { count, megabytes } from "../base/format";
import { Signal } from "../base/signal";
import { finiteRows, type Cloud } from "../cloud/cloud";
import { openFile, openStreet } from "../cloud/open";
import { CallError } from "../rpc/connect";
import {
  isPrefixed,
  isSame,
  sample,
  type Method,
  type Request,
  type Sample,
} from "../rpc/sampling";
import { frame, type Framed } from "../view/framing";
import { info, link, noticeFailure } from "./connection";
import { settings, STREET } from "./settings";

export interface Scene {
  readonly cloud: Cloud;
  readonly framed: Framed;
  /** How many rows are finite. */
  readonly finite: number;
}

/** Clouds of so many points are sampled whole at once, so that every number of samples is there. */
const MAX_WHOLE = 400_000;
const MIN_PART = 65_536;

export const scene = new Signal<Scene | undefined>(undefined);
export const sampled = new Signal<Sample | undefined>(undefined);
export const compared = new Signal<Sample | undefined>(undefined);
/** One sentence; empty while there is no problem. */
export const problem = new Signal("");
/** What the page waits for; empty while it waits for nothing. */
export const busy = new Signal("");
/** Share of a file that is read or sent. */
export const progress = new Signal<number | undefined>(undefined);

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
    if (running === mine) {
      busy.set("");
      progress.set(undefined);
    }
  }
}

/** Ends the running call. */
export function cancel(): void {
  running.abort();
  busy.set("");
  progress.set(undefined);
}

// Work that failed because the server was away continues once it is back.
link.onChange((state) => {
  if (state === "online" && retry && problem.value) void retry();
});

export function chooseFile(file: File): Promise<void> {
  return only(`Reading ${file.name} …`, async (signal) =>
    show(await openFile(file, signal, progress.set.bind(progress)), file.name, signal),
  );
}

export function chooseStreet(): Promise<void> {
  return only("Loading the example scan …", async (signal) =>
    show(await openStreet(signal), STREET, signal),
  );
}

async function show(cloud: Cloud, name: string, signal: AbortSignal): Promise<void> {
  const rows = finiteRows(cloud.points);
  const finite = rows.reduce((sum, one) => sum + one, 0);
  if (!finite) throw new Error(`${cloud.name} has no point with finite coordinates.`);
  const framed = frame(cloud, rows);
  const isFirst = !scene.value;
  sampled.set(undefined);
  compared.set(undefined);
  // Lengths of another cloud say nothing here; those of a link belong to its cloud.
  const length = Number((framed.radius / 50).toPrecision(1));
  isSettling = true;
  for (const each of [settings.radius, settings.voxel])
    if (!isFirst || !each.value) each.set(length);
  settings.start.set(Math.min(settings.start.value, cloud.count - 1));
  // A sample of every point shows nothing.
  if (settings.m.value >= finite) settings.m.set(Math.ceil(finite / 8));
  isSettling = false;
  settings.cloud.set(name);
  scene.set({ cloud, framed, finite });
  await ask(signal);
}

/** The largest number of samples. */
export function most({ cloud, finite }: Scene): number {
  return settings.nonfinite.value === "ignore" ? finite : cloud.count;
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
  progress.set(undefined);
  try {
    refuse(scene.value!);
    const chosen = await answerTo(settings.method.value, signal);
    const other = settings.compare.value;
    const second = other === "none" ? undefined : await answerTo(other, signal);
    compared.set(second);
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
      each &&
      isSame(each.request, request) &&
      (!isPrefixed(method) || each.request.samples >= request.samples),
  );
  if (found) return found;
  asked = request.samples;
  const onSent = (share: number): void => progress.set(share < 1 ? share : undefined);
  const answer = await sample(scene.value!.cloud.points, request, signal, onSent);
  signal.throwIfAborted();
  return answer;
}

/** Asks for more samples than are shown: the first of them are the answer for each smaller number. */
function requestOf(method: Method): Request {
  const all = most(scene.value!);
  const part = Math.max(MIN_PART, 2 ** Math.ceil(Math.log2(settings.m.value)));
  return {
    method,
    samples: all <= MAX_WHOLE ? all : Math.min(all, part),
    start: settings.start.value,
    radius: settings.radius.value,
    voxelSize: settings.voxel.value,
    seed: settings.seed.value,
    ignoreNonfinite: settings.nonfinite.value === "ignore",
  };
}

/**
 * What the server would refuse, before a cloud is sent.
 *
 * @throws Error with one sentence.
 */
function refuse(scene: Scene): void {
  refuseOversize(scene.cloud);
  refuseNonfinite(scene);
}

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

function refuseNonfinite({ cloud, framed, finite }: Scene): void {
  if (settings.nonfinite.value === "ignore" || finite === cloud.count) return;
  throw new Error(
    `${cloud.name} has ${count(cloud.count - finite)} rows with NaN or infinity, the first is row ${count(framed.finite.indexOf(0))}; "Skip" samples the others.`,
  );
}
