// The chosen rows as PLY and NPY.

import type { Cloud, Values } from "./cloud";

export type Format = "ply" | "npy" | "indices";

export function writeRows(format: Format, cloud: Cloud, rows: Int32Array): Blob {
  if (format === "ply") return writePly(cloud, rows);
  if (format === "npy")
    return writeNpy(
      cloud.points instanceof Float64Array ? "<f8" : "<f4",
      [rows.length, 3],
      pick(cloud.points, rows, 3),
    );
  return writeNpy("<i8", [rows.length], BigInt64Array.from(rows, BigInt));
}

/** Name of the download: "scan.pcd" becomes "scan-4096.ply". */
export function fileName(format: Format, cloud: Cloud, count: number): string {
  const stem = cloud.name.replace(/\.[^.]*$/, "");
  return `${stem}-${count}.${format === "indices" ? "indices.npy" : format}`;
}

function pick<T extends Values>(values: T, rows: Int32Array, width: number): T {
  const Kind = values.constructor as new (length: number) => T;
  const chosen = new Kind(rows.length * width);
  rows.forEach((row, i) => {
    for (let k = 0; k < width; k++) chosen[i * width + k] = values[row * width + k]!;
  });
  return chosen;
}

const PLY_TYPES: Record<string, string> = {
  Float32Array: "float",
  Float64Array: "double",
  Int8Array: "char",
  Uint8Array: "uchar",
  Int16Array: "short",
  Uint16Array: "ushort",
  Int32Array: "int",
  Uint32Array: "uint",
};

/** All columns: coordinates as x, y, z, then the attributes. */
function columnsOf(cloud: Cloud, rows: Int32Array): [string, Values][] {
  const points = pick(cloud.points, rows, 3);
  const axes = ["x", "y", "z"].map((axis, k): [string, Values] => [
    axis,
    points.filter((_, i) => i % 3 === k),
  ]);
  return [
    ...axes,
    ...[...cloud.attributes].map(([name, values]): [string, Values] => [
      name,
      pick(values, rows, 1),
    ]),
  ];
}

function writePly(cloud: Cloud, rows: Int32Array): Blob {
  const columns = columnsOf(cloud, rows);
  const head = [
    "ply",
    "format binary_little_endian 1.0",
    "comment sampled by Farpoint",
    `element vertex ${rows.length}`,
  ];
  for (const [name, values] of columns)
    head.push(`property ${PLY_TYPES[values.constructor.name]} ${name.replace(/\s+/g, "_")}`);
  const stride = columns.reduce((sum, [, values]) => sum + values.BYTES_PER_ELEMENT, 0);
  const body = new Uint8Array(stride * rows.length);
  let offset = 0;
  for (const [, values] of columns) {
    const size = values.BYTES_PER_ELEMENT;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    for (let i = 0; i < rows.length; i++) {
      for (let k = 0; k < size; k++) body[i * stride + offset + k] = bytes[i * size + k]!;
    }
    offset += size;
  }
  return new Blob([`${head.join("\n")}\nend_header\n`, body], { type: "application/octet-stream" });
}

function writeNpy(
  type: string,
  shape: readonly number[],
  values: ArrayBufferView<ArrayBuffer> | Values,
): Blob {
  const descr = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(", ")}${shape.length === 1 ? "," : ""}), }`;
  // Magic, version, length and description together are a multiple of 64 bytes.
  const padded = descr.padEnd(Math.ceil((descr.length + 11) / 64) * 64 - 11) + "\n";
  const head = new Uint8Array([
    0x93,
    ...new TextEncoder().encode("NUMPY"),
    1,
    0,
    padded.length & 255,
    padded.length >> 8,
  ]);
  return new Blob([head, padded, values as ArrayBufferView<ArrayBuffer>], {
    type: "application/octet-stream",
  });
}
