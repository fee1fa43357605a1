// Which files the page reads, and what is said of others before they are read.

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

/** What a browser can hold in one piece, beside the cloud that is made of it. */
const LARGEST_FILE = 1 << 30;

export function suffixOf(name: string): string {
  return /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

/** One sentence, where the name or the size already tell that a file cannot be read. */
export function refusal(file: { name: string; size: number }): string | undefined {
  if (!(SUFFIXES as readonly string[]).includes(suffixOf(file.name))) return unknown(file.name);
  if (!file.size) return `${file.name} is empty.`;
  if (file.size > LARGEST_FILE) {
    return `${file.name} has ${(file.size / 1e9).toFixed(1)} GB; this page reads up to 1 GB, and the command "farpoint sample" reads any size.`;
  }
  return undefined;
}

function unknown(name: string): string {
  return `${name} is no format that this page reads: ${SUFFIXES.map((suffix) => `.${suffix}`).join(" ")}.`;
}
