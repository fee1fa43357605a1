declare module "laz-perf/lib/worker/laz-perf.js" {
  export default function createLazPerf(options: {
    locateFile(): string;
  }): Promise<import("./cloud/las").LazPerf>;
}
