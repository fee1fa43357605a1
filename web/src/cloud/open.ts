// Clouds that a person chose: a file, read on a worker, or the example scan of the page.

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
 * @param onRead called with the share of the file that is read.
 * @throws FileError with one sentence; DOMException AbortError.
 */
export function openFile(
  file: File,
  signal: AbortSignal,
  onRead: (share: number) => void,
): Promise<Cloud> {
  const refused = refusal(file);
  if (refused) return Promise.reject(new FileError(refused));
  const worker = spare ?? readWorker();
  spare = undefined;
  return new Promise<Cloud>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
    worker.onerror = () => reject(new FileError(`${file.name} could not be read.`));
    worker.onmessage = ({ data }: MessageEvent<ReadAnswer>) => {
      if ("cloud" in data) resolve(data.cloud);
      else if ("message" in data) reject(new FileError(data.message));
      else onRead(data.share);
    };
    worker.postMessage(file);
  }).finally(() => {
    worker.terminate();
    prepareReader();
  });
}

/** Reads the scan that `make demo` samples too, as steps in centimeters and an intensity. */
export async function openStreet(signal: AbortSignal): Promise<Cloud> {
  const answer = await fetch(street, { signal });
  if (!answer.ok || !answer.body)
    throw new FileError("The example scan could not be loaded; is the server still there?");
  const unpacked = answer.body.pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(unpacked).arrayBuffer();
  const count = bytes.byteLength / 7;
  const columns = new Map<string, Float32Array>();
  ["x", "y", "z"].forEach((axis, k) => {
    let at = 0;
    const steps = new Int16Array(bytes, 2 * k * count, count);
    columns.set(
      axis,
      Float32Array.from(steps, (step) => (at += step) / 100),
    );
  });
  const shades = new Uint8Array(bytes, 6 * count, count);
  columns.set(
    "intensity",
    Float32Array.from(shades, (value) => value / 255),
  );
  return { ...cloudOfColumns("street", columns), unit: "m" };
}
