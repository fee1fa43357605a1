// Worker that reads one file, so that the page stays responsive and can end it.

import { buffersOf, type Cloud } from "./cloud";
import { readCloud } from "./read";

export type ReadAnswer = { cloud: Cloud } | { message: string };

self.onmessage = async ({ data }: MessageEvent<File>): Promise<void> => {
  try {
    const cloud = await readCloud(data.name, new Uint8Array(await data.arrayBuffer()));
    self.postMessage({ cloud } satisfies ReadAnswer, { transfer: buffersOf(cloud) });
  } catch (error) {
    const message = error instanceof Error ? error.message : `${data.name} could not be read.`;
    self.postMessage({ message } satisfies ReadAnswer);
  }
};
