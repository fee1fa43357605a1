// Clouds that a person chose: a file, or the example scan of the page.

import street from "../assets/street.bin?url";
import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { readNpy } from "./npy";
import { readPcd } from "./pcd";
import { readPly } from "./ply";
import { readText } from "./text";

const READERS = new Map([
  ["ply", readPly],
  ["pcd", readPcd],
  ["npy", readNpy],
  ["xyz", readText],
  ["txt", readText],
  ["csv", readText],
  ["pts", readText],
]);
/** Read by `farpoint sample` alone. */
const CONVERTED = ["las", "laz", "bin", "npz", "e57", "mcap", "db3", "bag"];
/** What is read without keeping the page busy for many seconds. */
const MAX_BYTES = 256e6;

/** @throws FileError with one sentence, whatever is wrong. */
export async function openFile(file: File): Promise<Cloud> {
  const { name, size } = file;
  const suffix = /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  const read = READERS.get(suffix);
  const converting = `farpoint sample ${name} -m 1000000 --all-if-fewer -o ${name.replace(/\.[^.]*$/, "")}.ply makes one`;
  if (!read) {
    const known = [...READERS.keys()].map((each) => `.${each}`).join(" ");
    const how = CONVERTED.includes(suffix) ? `: ${converting}` : "";
    throw new FileError(`${name} is no format that this page reads (${known})${how}.`);
  }
  if (!size) throw new FileError(`${name} is empty.`);
  if (size > MAX_BYTES)
    throw new FileError(
      `${name} has ${(size / 1e6).toFixed(0)} MB; this page reads up to ${MAX_BYTES / 1e6} MB: ${converting}.`,
    );
  try {
    return read(name, new Uint8Array(await file.arrayBuffer()));
  } catch (error) {
    if (error instanceof FileError) throw error;
    // Of a header that promises more than there is: a bad length, a read past the end.
    throw new FileError(`${name} is damaged, or no ${suffix.toUpperCase()} file.`);
  }
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
