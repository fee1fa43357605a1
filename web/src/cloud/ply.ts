// PLY, ASCII and binary: the element `vertex`, which comes first.

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { readColumns, type NumberType, type Property } from "./records";
import { readRows } from "./text";

const TYPES: Record<string, NumberType> = {
  char: "i1",
  uchar: "u1",
  short: "i2",
  ushort: "u2",
  int: "i4",
  uint: "u4",
  float: "f4",
  double: "f8",
  int8: "i1",
  uint8: "u1",
  int16: "i2",
  uint16: "u2",
  int32: "i4",
  uint32: "u4",
  float32: "f4",
  float64: "f8",
};

export function readPly(name: string, bytes: Uint8Array): Cloud {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 65536));
  const end = /end_header[^\n]*\n/.exec(head);
  if (!head.startsWith("ply") || !end) throw new FileError(`${name} has no PLY header.`);
  const lines = head
    .slice(0, end.index)
    .split(/\r?\n/)
    .map((line) => line.trim().split(/\s+/));
  const format = lines.find(([word]) => word === "format")?.[1];
  const [first = 0, second] = lines.flatMap(([word], at) => (word === "element" ? [at] : []));
  const [, element, count] = lines[first]!;
  if (element !== "vertex") throw new FileError(`${name} does not begin with vertices.`);
  const properties = lines
    .slice(first, second)
    .filter(([word]) => word === "property")
    .map((words) => propertyOf(name, words));
  const body = bytes.subarray(end.index + end[0].length);
  if (format === "ascii") return cloudOfColumns(name, readRows(body, Number(count), properties));
  if (format !== "binary_little_endian" && format !== "binary_big_endian")
    throw new FileError(`${name} has the PLY format "${format}", which is not read.`);
  const little = format === "binary_little_endian";
  return cloudOfColumns(name, readColumns(body, Number(count), properties, { little }));
}

function propertyOf(name: string, [, type = "", property = ""]: readonly string[]): Property {
  const known = TYPES[type];
  if (!known) throw new FileError(`${name} has vertices with "${type}", which is not read.`);
  return { name: property, type: known };
}
