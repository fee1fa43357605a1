// The cloud of the page and what the server made of it. A new choice ends the call before it.

import { openFile, openStreet } from "./cloud/open";
import { finiteRows, type Cloud } from "./cloud/cloud";
import { info, link, noticeFailure } from "./connection";
import { CallError } from "./rpc/connect";
import { encode, sample, type Encoding, type Sample } from "./rpc/sampling";
import { settings } from "./state";
import { bytes, count } from "./ui/format";
import { Signal } from "./ui/signal";
import { frame, type Framed } from "./view/framing";

export interface Scene {
  readonly cloud: Cloud;
  readonly framed: Framed;
  readonly finite: number;
}

/** Clouds of so many points are sampled whole at once, so that every m is there. */
const WHOLE = 400_000;
const PART = 65_536;

export const scene = new Signal<Scene | undefined>(undefined);
export const sampled = new Signal<Sample | undefined>(undefined);
export const encoded = new Signal<Encoding | undefined>(undefined);
/** One sentence; empty while all is well. */
export const problem = new Signal("");
/** What the page waits for; empty while it waits for nothing. */
export const busy = new Signal("");

let running = new AbortController();
/** Samples that the call that runs, or the last one, asks for. */
let asked = 0;
let again: (() => Promise<void>) | undefined;

/** Ends what runs, and runs this instead; a failure becomes the page's problem. */
async function only(doing: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  running.abort();
  const mine = (running = new AbortController());
  problem.set("");
  busy.set(doing);
  again = undefined;
  try {
    await work(mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    again = () => only(doing, work);
    problem.set(error instanceof Error ? error.message : "Something went wrong in the page.");
    noticeFailure(error);
  } finally {
    if (running === mine) busy.set("");
  }
}

/** Ends the call that runs. */
export function cancel(): void {
  running.abort();
  busy.set("");
}

// What failed because the server was away goes on once it is back.
link.onChange((state) => {
  if (state === "online" && again && problem.value) void again();
});

export function chooseFile(file: File): Promise<void> {
  return only(`Reading ${file.name} …`, async (signal) =>
    show(await openFile(file, signal), file.name, signal),
  );
}

export function chooseStreet(): Promise<void> {
  return only("Loading the street …", async (signal) =>
    show(await openStreet(signal), "street", signal),
  );
}

async function show(cloud: Cloud, name: string, signal: AbortSignal): Promise<void> {
  asked = 0;
  const rows = finiteRows(cloud.points);
  const finite = rows.reduce((sum, one) => sum + one, 0);
  if (!finite) throw new Error(`${cloud.name} has no point with finite coordinates.`);
  sampled.set(undefined);
  encoded.set(undefined);
  settings.cloud.set(name);
  settings.start.set(Math.min(settings.start.value, cloud.count - 1));
  scene.set({ cloud, framed: frame(cloud, rows), finite });
  await ask(signal);
}

/** Samples that can be asked for. */
export function most({ cloud, finite }: Scene): number {
  return settings.nonfinite.value === "ignore" ? finite : cloud.count;
}

/** Asks for a sample with the settings as they are. */
export function resample(): Promise<void> {
  return scene.value ? only("Sampling …", ask) : Promise.resolve();
}

/** Asks again only if more samples are wanted than were given, or asked for. */
export function wantSamples(m: number): void {
  const have = busy.value ? asked : (sampled.value?.indices.length ?? 0);
  if (have && m > have) void resample();
}

async function ask(signal: AbortSignal): Promise<void> {
  const { cloud } = scene.value!;
  busy.set("Sampling …");
  const all = most(scene.value!);
  asked = all <= WHOLE || settings.m.value > PART ? all : Math.min(all, PART);
  const ignoreNonfinite = settings.nonfinite.value === "ignore";
  const wanted = { samples: asked, start: settings.start.value, ignoreNonfinite };
  try {
    refuseOversize(cloud);
    refuseNonfinite(scene.value!);
    sampled.set(await sample(cloud.points, wanted, signal));
  } catch (error) {
    const away = error instanceof CallError && error.code === "unreachable";
    // A sample of other settings would be taken for the one that was asked for.
    if (!signal.aborted && !away) sampled.set(undefined);
    throw error;
  }
}

/** @throws Error the cloud is above what the server takes. */
function refuseOversize(cloud: Cloud): void {
  const limits = info.value?.limits;
  if (!limits) return;
  if (cloud.count > limits.requestPoints) {
    throw new Error(
      `${cloud.name} has ${count(cloud.count)} points; this server takes ${count(Number(limits.requestPoints))} in a call.`,
    );
  }
  // Beside the coordinates a message has some fifty bytes.
  if (cloud.points.byteLength + 256 > limits.messageBytes) {
    throw new Error(
      `${cloud.name} has ${bytes(cloud.points.byteLength)} of coordinates; this server takes ${bytes(Number(limits.messageBytes))} in a call.`,
    );
  }
}

/**
 * The server's own answer, in the words of the page and without a call.
 *
 * @throws Error there are such rows, and they are to be refused.
 */
function refuseNonfinite({ cloud, framed, finite }: Scene): void {
  if (settings.nonfinite.value === "ignore" || finite === cloud.count) return;
  throw new Error(
    `${cloud.name} has ${count(cloud.count - finite)} rows with NaN or infinity, the first is row ${count(framed.finite.indexOf(0))}; "Skip" samples the others.`,
  );
}

/** Runs the encoder over the finite rows. */
export function runEncoder(): Promise<void> {
  const current = scene.value;
  if (!current) return Promise.resolve();
  return only("Encoding …", async (signal) => {
    refuseOversize(current.cloud);
    const { points, rows } = finitePart(current);
    const answer = await encode(points, settings.model.value, signal);
    for (const stage of answer.stages)
      stage.indices.forEach((row, i) => (stage.indices[i] = rows ? rows[row]! : row));
    encoded.set(answer);
  });
}

/** The encoder takes no row without a place; indices are brought back to the cloud's own rows. */
function finitePart({ cloud, framed, finite }: Scene): {
  points: Cloud["points"];
  rows?: Int32Array;
} {
  if (finite === cloud.count) return { points: cloud.points };
  const rows = Int32Array.from({ length: cloud.count }, (_, i) => i).filter(
    (row) => framed.finite[row],
  );
  const points =
    cloud.points instanceof Float64Array
      ? new Float64Array(3 * finite)
      : new Float32Array(3 * finite);
  rows.forEach((row, i) => points.set(cloud.points.subarray(3 * row, 3 * row + 3), 3 * i));
  return { points, rows };
}
