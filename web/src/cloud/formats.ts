// Which files the page reads, and one sentence for those that it does not.

export const SUFFIXES = [
  "ply",
  "pcd",
  "las",
  "laz",
  "npy",
  "bin",
  "xyz",
  "txt",
  "csv",
  "pts",
] as const;

export type Suffix = (typeof SUFFIXES)[number];

/** What a browser can hold in one piece, next to the cloud that is made of it. */
const MAX_BYTES = 1 << 30;

export function suffixOf(name: string): string {
  return /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

/** One sentence, if the name or the size already show that a file cannot be read. */
export function refusal({ name, size }: { name: string; size: number }): string | undefined {
  if (!(SUFFIXES as readonly string[]).includes(suffixOf(name))) {
    const known = SUFFIXES.map((suffix) => `.${suffix}`).join(" ");
    return `${name} is no format that this page reads (${known}); the command "farpoint sample" reads more and writes .ply.`;
  }
  if (!size) return `${name} is empty.`;
  if (size <= MAX_BYTES) return undefined;
  return `${name} has ${(size / 1e9).toFixed(1)} GB; this page reads up to 1 GB, and the command "farpoint sample" reads any size.`;
}
