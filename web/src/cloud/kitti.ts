// Headerless float32 rows of KITTI (x y z intensity) and nuScenes (with a ring).

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { readColumns } from "./records";

export function readKitti(name: string, bytes: Uint8Array): Cloud {
  const isNuScenes = name.toLowerCase().endsWith(".pcd.bin");
  const names = ["x", "y", "z", "intensity", ...(isNuScenes ? ["ring"] : [])];
  const stride = 4 * names.length;
  if (bytes.length % stride)
    throw new FileError(
      `${name} has ${bytes.length} bytes, which are no rows of ${names.length} float32 values.`,
    );
  if (!isNuScenes && looksLikeRings(bytes))
    throw new FileError(
      `${name} looks like rows of five values with a ring; rename it to end in .pcd.bin.`,
    );
  const fields = names.map((field, k) => ({ name: field, type: "f4" as const, offset: 4 * k }));
  const columns = readColumns(bytes, bytes.length / stride, stride, fields);
  return { ...cloudOfColumns(name, columns), unit: "m" };
}

/** Whether every fifth value is a small whole number, and not always the same. */
function looksLikeRings(bytes: Uint8Array): boolean {
  if (bytes.length % 20) return false;
  const values = new Float32Array(bytes.slice().buffer);
  const rings = values.filter((_, i) => i % 5 === 4);
  const fits = rings.every((ring) => Number.isInteger(ring) && ring >= 0 && ring <= 255);
  return fits && new Set(rings).size > 1;
}
