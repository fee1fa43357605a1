// The chosen rows as PLY and NPY.

import type { Cloud, Values } from "./cloud";

export type Format = "ply" | "npy" | "indices";

export function writeRows(format: Format, { points, attributes }: Cloud, rows: Int32Array): Blob {
  if (format === "indices") return npy("<i8", `${rows.length},`, BigInt64Array.from(rows, BigInt));
  const axes = ["x", "y", "z"].map((name, k) => [name, pick(points, rows, 3, k)] as const);
  if (format === "ply") {
    const others = [...attributes].map(([name, values]) => [name, pick(values, rows)] as const);
    return ply([...axes, ...others]);
  }
  const chosen = points.slice(0, 3 * rows.length);
  axes.forEach(([, values], k) => {
    for (let i = 0; i < rows.length; i++) chosen[3 * i + k] = values[i]!;
  });
  const type = points instanceof Float64Array ? "<f8" : "<f4";
  return npy(type, `${rows.length}, 3`, chosen as ArrayBufferView<ArrayBuffer>);
}

/** Name of the download: "scan.pcd" becomes "scan-4096.ply". */
export function fileName(format: Format, cloud: Cloud, count: number): string {
  const stem = cloud.name.replace(/\.[^.]*$/, "");
  return `${stem}-${count}.${format === "indices" ? "indices.npy" : format}`;
}

/** Value `at` of `width` of some rows. */
function pick(values: Values, rows: Int32Array, width = 1, at = 0): Values {
  const Kind = values.constructor as new (length: number) => Values;
  const chosen = new Kind(rows.length);
  rows.forEach((row, i) => (chosen[i] = values[row * width + at]!));
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

function ply(columns: readonly (readonly [string, Values])[]): Blob {
  const count = columns[0]![1].length;
  const head = [
    "ply",
    "format binary_little_endian 1.0",
    "comment sampled by Farpoint",
    `element vertex ${count}`,
  ];
  for (const [name, values] of columns)
    head.push(`property ${PLY_TYPES[values.constructor.name]} ${name.replace(/\s+/g, "_")}`);
  const stride = columns.reduce((sum, [, values]) => sum + values.BYTES_PER_ELEMENT, 0);
  const body = new Uint8Array(stride * count);
  let offset = 0;
  for (const [, { buffer, BYTES_PER_ELEMENT: size }] of columns) {
    const bytes = new Uint8Array(buffer);
    for (let i = 0; i < count; i++) {
      for (let k = 0; k < size; k++) body[i * stride + offset + k] = bytes[i * size + k]!;
    }
    offset += size;
  }
  return new Blob([`${head.join("\n")}\nend_header\n`, body]);
}

function npy(type: string, shape: string, values: ArrayBufferView<ArrayBuffer>): Blob {
  const described = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape}), }`;
  // Magic, version, length and description together are a multiple of 64 bytes.
  const padded = described.padEnd(Math.ceil((described.length + 11) / 64) * 64 - 11) + "\n";
  const magic = [0x93, ...new TextEncoder().encode("NUMPY"), 1, 0];
  const head = new Uint8Array([...magic, padded.length & 255, padded.length >> 8]);
  return new Blob([head, padded, values]);
}
