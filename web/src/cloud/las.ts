// LAS 1.0 to 1.4 of airborne and mobile scanners, and LAZ, which laz-perf unpacks.

import wasm from "laz-perf/lib/worker/laz-perf.wasm?url";
import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";
import { readColumns, type Field } from "./records";

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

const MAX_DIGITS = 8;
/** Bytes from the beginning of a record to its red value, by point format. */
const COLORS: Record<number, number> = { 2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30 };

interface Header {
  readonly format: number;
  readonly packed: boolean;
  readonly stride: number;
  readonly count: number;
  readonly start: number;
  readonly scale: readonly number[];
  readonly offset: readonly number[];
}

export async function readLas(name: string, bytes: Uint8Array): Promise<Cloud> {
  const header = headerOf(name, bytes);
  if (!header.count) throw new FileError(`${name} has no points.`);
  const records = header.packed ? await unpack(name, bytes, header) : bytes.subarray(header.start);
  const columns = readColumns(records, header.count, header.stride, fieldsOf(header.format));
  const values = new Map<string, Values>();
  for (const [key, column] of columns) {
    const axis = "XYZ".indexOf(key);
    values.set(
      axis < 0 ? key : key.toLowerCase(),
      axis < 0 ? column : scaled(column, header.scale[axis]!, header.offset[axis]!),
    );
  }
  return cloudOfColumns(name, values);
}

function headerOf(name: string, bytes: Uint8Array): Header {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 227 || new TextDecoder().decode(bytes.subarray(0, 4)) !== "LASF")
    throw new FileError(`${name} has no LAS header.`);
  const minor = bytes[25]!;
  const doubles = (at: number, count: number): number[] =>
    Array.from({ length: count }, (_, k) => view.getFloat64(at + 8 * k, true));
  const legacy = view.getUint32(107, true);
  const format = bytes[104]!;
  return {
    format: format & 63,
    packed: format >= 128,
    stride: view.getUint16(105, true),
    count:
      minor >= 4 && bytes.length >= 255 && !legacy ? Number(view.getBigUint64(247, true)) : legacy,
    start: view.getUint32(96, true),
    scale: doubles(131, 3),
    offset: doubles(155, 3),
  };
}

function fieldsOf(format: number): Field[] {
  const extended = format >= 6;
  const fields: Field[] = [
    { name: "X", type: "i4", offset: 0 },
    { name: "Y", type: "i4", offset: 4 },
    { name: "Z", type: "i4", offset: 8 },
    { name: "intensity", type: "u2", offset: 12 },
    { name: "classification", type: "u1", offset: extended ? 16 : 15 },
  ];
  const red = COLORS[format];
  if (red !== undefined)
    ["red", "green", "blue"].forEach((name, k) =>
      fields.push({ name, type: "u2", offset: red + 2 * k }),
    );
  return fields;
}

/** Coordinates with the digits of the scale: 849393.95 and not 849393.9500000001. */
function scaled(column: Values, scale: number, offset: number): Float64Array {
  const digits = Math.max(digitsOf(scale), digitsOf(offset));
  const power = 10 ** digits;
  return Float64Array.from(column, (value) => {
    const moved = value * scale + offset;
    return digits > MAX_DIGITS ? moved : Math.round(moved * power) / power;
  });
}

/** Digits behind the point of 0.01 or 1e-7. */
function digitsOf(value: number): number {
  const [mantissa, exponent = "0"] = String(value).split("e");
  return Math.max(0, (mantissa!.split(".")[1]?.length ?? 0) - Number(exponent));
}

async function unpack(name: string, bytes: Uint8Array, header: Header): Promise<Uint8Array> {
  // Loaded only when a LAZ file is opened.
  const { default: createLazPerf } = await import("laz-perf/lib/worker/laz-perf.js");
  const module = await createLazPerf({ locateFile: () => wasm });
  const file = module._malloc(bytes.byteLength);
  const record = module._malloc(header.stride);
  const reader = new module.LASZip();
  try {
    module.HEAPU8.set(bytes, file);
    reader.open(file, bytes.byteLength);
    const out = new Uint8Array(header.count * header.stride);
    for (let i = 0; i < header.count; i++) {
      reader.getPoint(record);
      out.set(module.HEAPU8.subarray(record, record + header.stride), i * header.stride);
    }
    return out;
  } catch {
    // What the decoder throws is the address of a C++ exception.
    throw new FileError(
      `${name} is damaged, or packed in a way of LAZ that is not read here (point format ${header.format}).`,
    );
  } finally {
    reader.delete();
    module._free(record);
    module._free(file);
  }
}
