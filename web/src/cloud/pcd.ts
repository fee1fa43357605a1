// PCD of the Point Cloud Library: ASCII, binary and LZF-compressed binary.

import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";
import { columnsOf, isNumberType, readColumns, type Property } from "./records";
import { readRows } from "./text";

export function readPcd(name: string, bytes: Uint8Array): Cloud {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 65536));
  const end = /^DATA\s+(\S+)[^\n]*\n/m.exec(head);
  if (!end) throw new FileError(`${name} has no PCD header.`);
  const header = new Map(
    head
      .slice(0, end.index)
      .split(/\r?\n/)
      .map((line) => line.trim().split(/\s+/))
      .map(([key, ...rest]) => [key!.toUpperCase(), rest]),
  );
  const grid = Number(header.get("WIDTH")?.[0] ?? 0) * Number(header.get("HEIGHT")?.[0] ?? 1);
  const count = Number(header.get("POINTS")?.[0] ?? grid);
  const body = bytes.subarray(end.index + end[0].length);
  const columns = read(end[1]!.toLowerCase(), body, count, propertiesOf(name, header));
  if (!columns) throw new FileError(`${name} has PCD data "${end[1]}", which is not read.`);
  return cloudOfColumns(name, columns);
}

function propertiesOf(name: string, header: ReadonlyMap<string, string[]>): Property[] {
  const of = (key: string, k: number, otherwise: string): string =>
    header.get(key)?.[k] ?? otherwise;
  const names = header.get("FIELDS") ?? header.get("COLUMNS") ?? [];
  return names.map((field, k) => {
    const type = `${of("TYPE", k, "F").toLowerCase()}${of("SIZE", k, "4")}`;
    if (!isNumberType(type)) throw new FileError(`${name} has PCD fields that are not understood.`);
    return { name: field, type, width: Number(of("COUNT", k, "1")) };
  });
}

function read(
  data: string,
  body: Uint8Array,
  count: number,
  properties: readonly Property[],
): Map<string, Values> | undefined {
  if (data === "ascii") return readRows(body, count, columnsOf(properties));
  if (data === "binary") return readColumns(body, count, properties);
  if (data === "binary_compressed")
    return readColumns(unpacked(body), count, properties, { planar: true });
  return undefined;
}

/** After LZF of Marc Lehmann: literal runs, and back references of at least three bytes. */
function unpacked(body: Uint8Array): Uint8Array {
  const sizes = new DataView(body.buffer, body.byteOffset, 8);
  const packed = body.subarray(8, 8 + sizes.getUint32(0, true));
  const out = new Uint8Array(sizes.getUint32(4, true));
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
    if (source < 0) break;
    for (let k = 0; k < length + 2; k++) out[to++] = out[source++]!;
  }
  if (to !== out.length)
    throw new FileError("The file is damaged: its compressed data is invalid.");
  return out;
}
