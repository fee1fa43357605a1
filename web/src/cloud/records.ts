// Columns of binary values, as PLY, PCD and NPY have them.

import { FileError, type Values } from "./cloud";

export type NumberType = "i1" | "u1" | "i2" | "u2" | "i4" | "u4" | "f4" | "f8" | "i8" | "u8";

export interface Property {
  readonly name: string;
  readonly type: NumberType;
  /** Values of a point; of more than one, each is a column with a number behind the name. */
  readonly width?: number;
}

/** Where the values of a column lie. */
interface Field extends Property {
  /** Bytes before the first value. */
  readonly offset: number;
  /** Bytes from one point to the next. */
  readonly step: number;
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
  f4: [Float32Array, (view, at, little) => view.getFloat32(at, little)],
  f8: [Float64Array, (view, at, little) => view.getFloat64(at, little)],
  i8: [Float64Array, (view, at, little) => Number(view.getBigInt64(at, little))],
  u8: [Float64Array, (view, at, little) => Number(view.getBigUint64(at, little))],
};

export function isNumberType(type: string): type is NumberType {
  return type in TYPES;
}

export function allocate(type: NumberType, count: number): Values {
  return new TYPES[type][0](count);
}

/** One property for each column. */
export function columnsOf(properties: readonly Property[]): Property[] {
  return properties.flatMap(({ name, type, width = 1 }) =>
    Array.from({ length: width }, (_, k) => ({ name: width > 1 ? `${name}${k}` : name, type })),
  );
}

/**
 * Reads the columns of `count` points.
 *
 * @param planar each property lies there for all points before the next one, else one point after
 *     the other.
 * @throws FileError the bytes end before the last point does.
 */
export function readColumns(
  bytes: Uint8Array,
  count: number,
  properties: readonly Property[],
  { little = true, planar = false } = {},
): Map<string, Values> {
  const stride = properties.reduce((sum, property) => sum + sizeOf(property), 0);
  if (bytes.byteLength < count * stride) {
    const whole = Math.floor(bytes.byteLength / stride);
    throw new FileError(`The file is truncated: it announces ${count} points and has ${whole}.`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const columns = new Map<string, Values>();
  for (const { name, type, offset, step } of fieldsOf(properties, stride, planar ? count : 0)) {
    const values = allocate(type, count);
    const get = TYPES[type][1];
    for (let i = 0, at = offset; i < count; i++, at += step) values[i] = get(view, at, little);
    columns.set(name, values);
  }
  return columns;
}

function sizeOf({ type, width = 1 }: Property): number {
  return Number(type[1]) * width;
}

/** @param plane points of a plane; 0 for records. */
function fieldsOf(properties: readonly Property[], stride: number, plane: number): Field[] {
  let begin = 0;
  return properties.flatMap((property) => {
    const start = begin;
    begin += sizeOf(property);
    return columnsOf([property]).map((column, k) => ({
      ...column,
      offset: start * (plane || 1) + k * sizeOf(column),
      step: plane ? sizeOf(property) : stride,
    }));
  });
}
