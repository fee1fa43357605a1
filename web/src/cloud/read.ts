// The format of a file by its name, and one sentence for whatever is wrong with it.

import { FileError, type Cloud } from "./cloud";
import { refusal, suffixOf, type Suffix } from "./formats";
import { readNpy } from "./npy";
import { readPcd } from "./pcd";
import { readPly } from "./ply";
import { readText } from "./text";

type Reader = (name: string, bytes: Uint8Array) => Cloud;

const READERS: Record<Suffix, Reader> = {
  ply: readPly,
  pcd: readPcd,
  npy: readNpy,
  xyz: readText,
  txt: readText,
  csv: readText,
  pts: readText,
};

/** @throws FileError with one sentence, whatever is wrong. */
export function readCloud(name: string, bytes: Uint8Array): Cloud {
  const refused = refusal({ name, size: bytes.length });
  if (refused) throw new FileError(refused);
  try {
    return READERS[suffixOf(name) as Suffix](name, bytes);
  } catch (error) {
    if (error instanceof FileError) throw error;
    // Of a header that promises more than there is: a bad length, a read past the end.
    throw new FileError(`${name} is damaged, or no ${suffixOf(name).toUpperCase()} file.`);
  }
}
