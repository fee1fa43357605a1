// Headerless float32 rows of KITTI (x y z intensity) and nuScenes (and a ring).

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { readColumns } from "./records";

export function readKitti(name: string, bytes: Uint8Array): Cloud {
  const five = name.toLowerCase().endsWith(".pcd.bin");
  const names = five ? ["x", "y", "z", "intensity", "ring"] : ["x", "y", "z", "intensity"];
  const stride = 4 * names.length;
  if (!bytes.length) throw new FileError(`${name} has no points.`);
  if (bytes.length % stride)
    throw new FileError(
      `${name} has ${bytes.length} bytes, which are no rows of ${names.length} float32 values.`,
    );
  if (!five && looksLikeRings(bytes))
    throw new FileError(
      `${name} looks like rows of five values with a ring; rename it to end in .pcd.bin.`,
    );
  const fields = names.map((field, k) => ({ name: field, type: "f4" as const, offset: 4 * k }));
  return cloudOfColumns(name, readColumns(bytes, bytes.length / stride, stride, fields));
}

/** Whether every fifth value is a small whole number, and not always the same. */
function looksLikeRings(bytes: Uint8Array): boolean {
  if (bytes.length % 20) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rings = new Set<number>();
  for (let at = 16; at < bytes.length; at += 20) {
    const value = view.getFloat32(at, true);
    if (!Number.isInteger(value) || value < 0 || value > 255) return false;
    rings.add(value);
  }
  return rings.size > 1;
}
