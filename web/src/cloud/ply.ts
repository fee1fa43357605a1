// PLY, ASCII and binary: the element `vertex`.

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { getter, readColumns, sizeOf, type Field, type NumberType } from "./records";
import { numbersOf } from "./text";

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

interface Property {
  name: string;
  type: NumberType;
  /** Type of the length, where it is a list. */
  length?: NumberType;
}

interface Element {
  name: string;
  count: number;
  properties: Property[];
}

export function readPly(name: string, bytes: Uint8Array): Cloud {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 65536));
  const end = /end_header[^\n]*\n/.exec(head);
  if (!head.startsWith("ply") || !end) throw new FileError(`${name} has no PLY header.`);
  const lines = head
    .slice(0, end.index)
    .split(/\r?\n/)
    .map((line) => line.trim().split(/\s+/));
  const format = lines.find(([word]) => word === "format")?.[1];
  const elements = elementsOf(name, lines);
  const vertex = elements.find((element) => element.name === "vertex");
  if (!vertex) throw new FileError(`${name} has no vertices.`);
  if (vertex.properties.some((property) => property.length))
    throw new FileError(`${name} has vertices with lists, which are not read.`);
  const before = elements.slice(0, elements.indexOf(vertex));
  const body = bytes.subarray(end.index + end[0].length);
  if (format === "ascii") return readAscii(name, body, vertex, before);
  if (format !== "binary_little_endian" && format !== "binary_big_endian")
    throw new FileError(`${name} has the PLY format "${format}", which is not read.`);
  const little = format === "binary_little_endian";
  const rest = body.subarray(before.reduce((at, element) => skip(body, at, element, little), 0));
  let stride = 0;
  const fields: Field[] = vertex.properties.map(({ name, type }) => {
    const offset = stride;
    stride += sizeOf(type);
    return { name, type, offset };
  });
  return cloudOfColumns(name, readColumns(rest, vertex.count, stride, fields, little));
}

function elementsOf(name: string, lines: readonly string[][]): Element[] {
  const elements: Element[] = [];
  for (const [word, first, second, third, fourth] of lines) {
    if (word === "element") elements.push({ name: first!, count: Number(second), properties: [] });
    if (word !== "property") continue;
    const list = first === "list";
    const type = TYPES[(list ? third : first) ?? ""];
    const length = list ? TYPES[second ?? ""] : undefined;
    if (!type || (list && !length) || !elements.length)
      throw new FileError(`${name} has a PLY property that is not understood.`);
    elements.at(-1)!.properties.push({
      name: (list ? fourth : second) ?? "",
      type,
      ...(length ? { length } : {}),
    });
  }
  return elements;
}

function readAscii(
  name: string,
  body: Uint8Array,
  vertex: Element,
  before: readonly Element[],
): Cloud {
  const lines = new TextDecoder()
    .decode(body)
    .split(/\r?\n/)
    .filter((line) => line.trim());
  const rows = lines.slice(before.reduce((total, element) => total + element.count, 0));
  const columns = numbersOf(
    rows,
    vertex.properties.map((property) => property.name),
    vertex.count,
  );
  const typed = new Map(
    vertex.properties.map(({ name, type }) => {
      const values = columns.get(name)!;
      return [
        name,
        type === "f4"
          ? Float32Array.from(values)
          : type === "u1"
            ? Uint8Array.from(values)
            : values,
      ] as const;
    }),
  );
  return cloudOfColumns(name, typed);
}

/** Where an element of a binary file ends. */
function skip(body: Uint8Array, at: number, element: Element, little: boolean): number {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let row = 0; row < element.count; row++) {
    for (const { type, length } of element.properties) {
      const many = length ? getter(length, little)(view, at) : 1;
      at += (length ? sizeOf(length) : 0) + many * sizeOf(type);
    }
  }
  return at;
}
