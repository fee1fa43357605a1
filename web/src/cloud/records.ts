// Columns of fixed-width binary records, as PLY, PCD and structured NPY have them.

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

type Getter = (view: DataView, at: number, little: boolean) => number;

/** The array for values of a type, and how one is read; integers of eight bytes become float64. */
const TYPES: Record<NumberType, readonly [new (count: number) => Values, Getter]> = {
  i1: [Int8Array, (view, at) => view.getInt8(at)],
  u1: [Uint8Array, (view, at) => view.getUint8(at)],
  i2: [Int16Array, (view, at, little) => view.getInt16(at, little)],
  u2: [Uint16Array, (view, at, little) => view.getUint16(at, little)],
  i4: [Int32Array, (view, at, little) => view.getInt32(at, little)],
  u4: [Uint32Array, (view, at, little) => view.getUint32(at, little)],
  f2: [Float32Array, (view, at, little) => widenHalf(view.getUint16(at, little))],
  f4: [Float32Array, (view, at, little) => view.getFloat32(at, little)],
  f8: [Float64Array, (view, at, little) => view.getFloat64(at, little)],
  i8: [Float64Array, (view, at, little) => Number(view.getBigInt64(at, little))],
  u8: [Float64Array, (view, at, little) => Number(view.getBigUint64(at, little))],
};

/** Room for values of a type. */
export function allocate(type: NumberType, count: number): Values {
  return new TYPES[type][0](count);
}

export function getter(type: NumberType, little: boolean): (view: DataView, at: number) => number {
  const get = TYPES[type][1];
  return (view, at) => get(view, at, little);
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
    throw new FileError(`The file is truncated: it announces ${count} points and has ${whole}.`);
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
