// Worker that reads one file, so that the page stays responsive and can end it.

import { FileError, buffersOf, type Cloud } from "./cloud";
import { refusal, suffixOf, type Suffix } from "./formats";
import { readNpy } from "./npy";
import { readPcd } from "./pcd";
import { readPly } from "./ply";
import { readText } from "./text";

export type ReadAnswer = { cloud: Cloud } | { message: string } | { share: number };

function say(answer: ReadAnswer, transfer: ArrayBuffer[] = []): void {
  self.postMessage(answer, { transfer });
}

/** By FileReader, since File.arrayBuffer does not tell how much it has read. */
function bytesOf(file: File): Promise<ArrayBuffer> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onprogress = ({ loaded }) => say({ share: loaded / file.size });
    reader.onload = () => resolve(reader.result as ArrayBuffer);
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsArrayBuffer(file);
  });
}

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
function readCloud(name: string, bytes: Uint8Array): Cloud {
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

self.onmessage = async ({ data }: MessageEvent<File>): Promise<void> => {
  try {
    const cloud = readCloud(data.name, new Uint8Array(await bytesOf(data)));
    say({ cloud }, buffersOf(cloud));
  } catch (error) {
    say({ message: error instanceof Error ? error.message : `${data.name} could not be read.` });
  }
};
