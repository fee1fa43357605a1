// The format of a file by its name, and one sentence for whatever is wrong with it.

import { FileError, type Cloud } from "./cloud";
import { readKitti } from "./kitti";
import { readLas } from "./las";
import { readNpy } from "./npy";
import { readPcd } from "./pcd";
import { readPly } from "./ply";
import { readText } from "./text";

type Reader = (name: string, bytes: Uint8Array) => Cloud | Promise<Cloud>;

const READERS: Record<string, Reader> = {
  ply: readPly, pcd: readPcd, las: readLas, laz: readLas, npy: readNpy, bin: readKitti,
  xyz: readText, txt: readText, csv: readText, pts: readText,
};

export const SUFFIXES = Object.keys(READERS).map((suffix) => `.${suffix}`);

/** What a browser can hold in one piece, beside the cloud that is made of it. */
export const LARGEST_FILE = 1 << 30;

/** @throws FileError with one sentence, whatever is wrong. */
export async function readCloud(name: string, bytes: Uint8Array): Promise<Cloud> {
  const read = READERS[suffixOf(name)];
  if (!read) throw new FileError(unknown(name));
  try {
    return await read(name, bytes);
  } catch (error) {
    if (error instanceof FileError) throw error;
    // Of a header that promises more than there is: a bad length, a read past the end.
    throw new FileError(`${name} is damaged, or no ${suffixOf(name).toUpperCase()} file.`);
  }
}

export function suffixOf(name: string): string {
  return /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

/** Said before a file is read, where its name or size already tell. */
export function refusal(file: { name: string; size: number }): string | undefined {
  if (!READERS[suffixOf(file.name)]) return unknown(file.name);
  if (!file.size) return `${file.name} is empty.`;
  if (file.size > LARGEST_FILE) {
    return `${file.name} has ${(file.size / 1e9).toFixed(1)} GB; this page reads up to 1 GB, and the command "farpoint sample" reads any size.`;
  }
  return undefined;
}

function unknown(name: string): string {
  return `${name} is no format that this page reads: ${SUFFIXES.join(" ")}.`;
}
