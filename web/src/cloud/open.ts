// Clouds that a person chose: a file, read on a worker, or the street that comes with the page.

import street from "../assets/street.bin?url";
import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { refusal } from "./formats";
import type { ReadAnswer } from "./read.worker";

function readWorker(): Worker {
  return new Worker(new URL("./read.worker.ts", import.meta.url), { type: "module" });
}

/** Started before it is needed: a server that is gone by then gives no script. */
let spare: Worker | undefined;

export function prepareReader(): void {
  spare ??= readWorker();
}

/**
 * Reads a file on a thread of its own, which ends with `signal`.
 *
 * @throws FileError with one sentence; DOMException AbortError.
 */
export function openFile(file: File, signal: AbortSignal): Promise<Cloud> {
  const refused = refusal(file);
  if (refused) return Promise.reject(new FileError(refused));
  const worker = spare ?? readWorker();
  spare = undefined;
  return new Promise<Cloud>((resolve, reject) => {
    signal.addEventListener("abort", () =>
      reject(new DOMException("Another choice was made.", "AbortError")),
    );
    worker.onerror = () => reject(new FileError(`${file.name} could not be read.`));
    worker.onmessage = ({ data }: MessageEvent<ReadAnswer>) =>
      "cloud" in data ? resolve(data.cloud) : reject(new FileError(data.message));
    worker.postMessage(file);
  }).finally(() => {
    worker.terminate();
    prepareReader();
  });
}

/** The scan that `make demo` samples too, in whole centimeters: see tools/make_street.py. */
export async function openStreet(signal: AbortSignal): Promise<Cloud> {
  const answer = await fetch(street, { signal });
  if (!answer.ok || !answer.body)
    throw new FileError("The street could not be loaded; is the server still there?");
  const bytes = await new Response(
    answer.body.pipeThrough(new DecompressionStream("gzip")),
  ).arrayBuffer();
  const count = bytes.byteLength / 7;
  const columns = new Map<string, Float32Array>();
  ["x", "y", "z"].forEach((axis, k) => {
    const steps = new Int16Array(bytes, 2 * k * count, count);
    const values = new Float32Array(count);
    for (let i = 0, at = 0; i < count; i++) values[i] = (at += steps[i]!) / 100;
    columns.set(axis, values);
  });
  columns.set(
    "intensity",
    Float32Array.from(new Uint8Array(bytes, 6 * count, count), (value) => value / 255),
  );
  return cloudOfColumns("street", columns);
}
