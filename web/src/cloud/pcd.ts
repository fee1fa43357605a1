// PCD of the Point Cloud Library: ASCII, binary and LZF-compressed binary.

import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";
import { readColumns, sizeOf, type Field, type NumberType } from "./records";
import { numbersOf } from "./text";

interface Header {
  readonly fields: readonly { name: string; type: NumberType; width: number }[];
  readonly count: number;
  readonly data: string;
  readonly body: Uint8Array;
}

export function readPcd(name: string, bytes: Uint8Array): Cloud {
  const header = headerOf(name, bytes);
  if (header.data === "ascii") return cloudOfColumns(name, readAscii(header));
  if (header.data === "binary") return cloudOfColumns(name, readBinary(header));
  if (header.data === "binary_compressed")
    return cloudOfColumns(name, readCompressed(name, header));
  throw new FileError(`${name} has PCD data "${header.data}", which is not read.`);
}

function headerOf(name: string, bytes: Uint8Array): Header {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 65536));
  const end = /^DATA\s+(\S+)[^\n]*\n/m.exec(head);
  if (!end) throw new FileError(`${name} has no PCD header.`);
  const values = new Map(
    head
      .slice(0, end.index)
      .split(/\r?\n/)
      .map((line) => line.trim().split(/\s+/))
      .map(([key, ...rest]) => [key!.toUpperCase(), rest]),
  );
  const names = values.get("FIELDS") ?? values.get("COLUMNS") ?? [];
  const sizes = values.get("SIZE") ?? [];
  const kinds = values.get("TYPE") ?? [];
  const widths = values.get("COUNT") ?? names.map(() => "1");
  const fields = names.map((field, k) => ({
    name: field,
    type: `${(kinds[k] ?? "F").toLowerCase()}${sizes[k] ?? "4"}` as NumberType,
    width: Number(widths[k] ?? 1),
  }));
  if (!fields.length || fields.some(({ type }) => !/^([iu][1248]|f[48])$/.test(type)))
    throw new FileError(`${name} has PCD fields that are not understood.`);
  const grid = Number(values.get("WIDTH")?.[0] ?? 0) * Number(values.get("HEIGHT")?.[0] ?? 1);
  const count = Number(values.get("POINTS")?.[0] ?? grid);
  return {
    fields,
    count,
    data: end[1]!.toLowerCase(),
    body: bytes.subarray(end.index + end[0].length),
  };
}

/** Names of all values of a record, and where they lie; padding is named "_". */
function layout(header: Header): { fields: Field[]; stride: number } {
  let stride = 0;
  const fields = header.fields.flatMap(({ name, type, width }) =>
    Array.from({ length: width }, (_, k) => {
      const offset = stride;
      stride += sizeOf(type);
      return { name: width > 1 ? `${name}${k}` : name, type, offset };
    }),
  );
  return { fields, stride };
}

const kept = (fields: readonly Field[]): Field[] =>
  fields.filter(({ name }) => !name.startsWith("_"));

function readAscii(header: Header): Map<string, Values> {
  const { fields } = layout(header);
  const lines = new TextDecoder()
    .decode(header.body)
    .split(/\r?\n/)
    .filter((line) => line.trim());
  const columns = numbersOf(
    lines,
    fields.map(({ name }, k) => `${k}:${name}`),
    header.count,
  );
  return new Map(
    fields
      .map(({ name, type }, k) => {
        const values = columns.get(`${k}:${name}`)!;
        return [
          name,
          type === "f4"
            ? Float32Array.from(values)
            : type === "u4"
              ? Uint32Array.from(values)
              : values,
        ] as const;
      })
      .filter(([name]) => !name.startsWith("_")),
  );
}

function readBinary(header: Header): Map<string, Values> {
  const { fields, stride } = layout(header);
  return readColumns(header.body, header.count, stride, kept(fields));
}

/** Fields lie one after the other, each for all points. */
function readCompressed(name: string, header: Header): Map<string, Values> {
  const view = new DataView(header.body.buffer, header.body.byteOffset, header.body.byteLength);
  if (header.body.byteLength < 8) throw new FileError(`${name} is truncated.`);
  const [packed, unpacked] = [view.getUint32(0, true), view.getUint32(4, true)];
  const { stride } = layout(header);
  if (unpacked < stride * header.count || header.body.byteLength < 8 + packed)
    throw new FileError(`${name} is truncated.`);
  const bytes = unpackLzf(header.body.subarray(8, 8 + packed), unpacked);
  const columns = new Map<string, Values>();
  let start = 0;
  for (const { name: field, type, width } of header.fields) {
    const step = sizeOf(type) * width;
    const names = Array.from({ length: width }, (_, k) => ({
      name: width > 1 ? `${field}${k}` : field,
      type,
      offset: k * sizeOf(type),
    }));
    for (const [key, values] of readColumns(bytes.subarray(start), header.count, step, kept(names)))
      columns.set(key, values);
    start += step * header.count;
  }
  return columns;
}

/** LZF of Marc Lehmann: literal runs, and back references of at least three bytes. */
function unpackLzf(packed: Uint8Array, size: number): Uint8Array {
  const out = new Uint8Array(size);
  let from = 0;
  let to = 0;
  while (from < packed.length) {
    const control = packed[from++]!;
    if (control < 32) {
      out.set(packed.subarray(from, from + control + 1), to);
      from += control + 1;
      to += control + 1;
      continue;
    }
    let length = control >> 5;
    if (length === 7) length += packed[from++]!;
    let source = to - ((control & 31) << 8) - packed[from++]! - 1;
    if (source < 0 || to + length + 2 > size)
      throw new FileError("The file is damaged: its compressed data is invalid.");
    for (let k = 0; k < length + 2; k++) out[to++] = out[source++]!;
  }
  if (to !== size) throw new FileError("The file is damaged: its compressed data is invalid.");
  return out;
}
