// Which files the page reads, and one sentence for those that it does not.

export const SUFFIXES = ["ply", "pcd", "npy", "xyz", "txt", "csv", "pts"] as const;

export type Suffix = (typeof SUFFIXES)[number];

/** Read by `farpoint sample` alone. */
const CONVERTED = ["las", "laz", "bin", "npz", "e57", "mcap", "db3", "bag"];

/** What a browser can hold in one piece, next to the cloud that is made of it. */
const MAX_BYTES = 1 << 30;

export function suffixOf(name: string): string {
  return /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

/** How to make a file that the page reads. */
function converting(name: string): string {
  const stem = name.replace(/\.[^.]*$/, "");
  return `farpoint sample ${name} -m 1000000 --all-if-fewer -o ${stem}.ply makes one`;
}

/** One sentence, if the name or the size already show that a file cannot be read. */
export function refusal({ name, size }: { name: string; size: number }): string | undefined {
  const suffix = suffixOf(name);
  if (!(SUFFIXES as readonly string[]).includes(suffix)) {
    const known = SUFFIXES.map((each) => `.${each}`).join(" ");
    const how = CONVERTED.includes(suffix) ? `: ${converting(name)}` : "";
    return `${name} is no format that this page reads (${known})${how}.`;
  }
  if (!size) return `${name} is empty.`;
  if (size <= MAX_BYTES) return undefined;
  return `${name} has ${(size / 1e9).toFixed(1)} GB; this page reads up to 1 GB: ${converting(name)}.`;
}
