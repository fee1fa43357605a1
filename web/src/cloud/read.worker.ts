// Worker that reads one file, so that the page stays responsive and can end it.

import { buffersOf, type Cloud } from "./cloud";
import { readCloud } from "./read";

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

self.onmessage = async ({ data }: MessageEvent<File>): Promise<void> => {
  try {
    const cloud = readCloud(data.name, new Uint8Array(await bytesOf(data)));
    say({ cloud }, buffersOf(cloud));
  } catch (error) {
    say({ message: error instanceof Error ? error.message : `${data.name} could not be read.` });
  }
};
