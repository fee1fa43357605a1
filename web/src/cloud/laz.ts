// laz-perf, loaded only when a LAZ file is dropped.

import createLazPerf from "laz-perf/lib/worker/laz-perf.js";
import wasm from "laz-perf/lib/worker/laz-perf.wasm?url";

export interface LazPerf {
  readonly HEAPU8: Uint8Array;
  _malloc(size: number): number;
  _free(address: number): void;
  readonly LASZip: new () => {
    open(address: number, length: number): void;
    getPoint(address: number): void;
    delete(): void;
  };
}

export function loadLazPerf(): Promise<LazPerf> {
  return createLazPerf({ locateFile: () => wasm });
}
