// Columns of fixed-width binary records, as PLY, PCD, LAS and structured NPY have them.

import { FileError, type Values } from "./cloud";

export type NumberType = "i1" | "u1" | "i2" | "u2" | "i4" | "u4" | "f4" | "f8" | "f2" | "i8" | "u8";

export interface Field {
  readonly name: string;
  readonly type: NumberType;
  /** Bytes from the beginning of a record. */
  readonly offset: number;
}

export function sizeOf(type: NumberType): number {
  return Number(type[1]);
}

/** Room for values of a type; integers of eight bytes become float64. */
export function allocate(type: NumberType, count: number): Values {
  switch (type) {
    case "i1":
      return new Int8Array(count);
    case "u1":
      return new Uint8Array(count);
    case "i2":
      return new Int16Array(count);
    case "u2":
      return new Uint16Array(count);
    case "i4":
      return new Int32Array(count);
    case "u4":
      return new Uint32Array(count);
    case "f2":
    case "f4":
      return new Float32Array(count);
    case "f8":
    case "i8":
    case "u8":
      return new Float64Array(count);
  }
}

type Getter = (view: DataView, at: number) => number;

export function getter(type: NumberType, little: boolean): Getter {
  switch (type) {
    case "i1":
      return (view, at) => view.getInt8(at);
    case "u1":
      return (view, at) => view.getUint8(at);
    case "i2":
      return (view, at) => view.getInt16(at, little);
    case "u2":
      return (view, at) => view.getUint16(at, little);
    case "i4":
      return (view, at) => view.getInt32(at, little);
    case "u4":
      return (view, at) => view.getUint32(at, little);
    case "f2":
      return (view, at) => widenHalf(view.getUint16(at, little));
    case "f4":
      return (view, at) => view.getFloat32(at, little);
    case "f8":
      return (view, at) => view.getFloat64(at, little);
    case "i8":
      return (view, at) => Number(view.getBigInt64(at, little));
    case "u8":
      return (view, at) => Number(view.getBigUint64(at, little));
  }
}

function widenHalf(bits: number): number {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/**
 * The columns of `count` records of `stride` bytes.
 *
 * @throws FileError the bytes end before the last record does.
 */
export function readColumns(
  bytes: Uint8Array,
  count: number,
  stride: number,
  fields: readonly Field[],
  little = true,
): Map<string, Values> {
  if (bytes.byteLength < count * stride) {
    const whole = Math.floor(bytes.byteLength / Math.max(stride, 1));
    throw new FileError(`The file is cut short: it names ${count} points and has ${whole}.`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const columns = new Map<string, Values>();
  for (const { name, type, offset } of fields) {
    const values = allocate(type, count);
    const get = getter(type, little);
    for (let i = 0, at = offset; i < count; i++, at += stride) values[i] = get(view, at);
    columns.set(name, values);
  }
  return columns;
}
