// NPY of numpy: (N, 3+), (H, W, 3+) and structured arrays.

import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";
import { allocate, getter, readColumns, sizeOf, type Field, type NumberType } from "./records";

export function readNpy(name: string, bytes: Uint8Array): Cloud {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || new TextDecoder("latin1").decode(bytes.subarray(1, 6)) !== "NUMPY")
    throw new FileError(`${name} is no NPY file.`);
  const wide = bytes[6]! > 1;
  const start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = new TextDecoder("latin1").decode(bytes.subarray(start, start + length));
  const body = bytes.subarray(start + length);
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(head)?.[1] ?? "")
    .split(",")
    .filter((n) => n.trim())
    .map(Number);
  const structured = /'descr':\s*\[(.*?)\],\s*'fortran/.exec(head)?.[1];
  if (structured) return readStructured(name, body, structured, shape);
  const type = typeOf(/'descr':\s*'([^']*)'/.exec(head)?.[1] ?? "");
  if (!type) throw new FileError(`${name} holds values that are no numbers.`);
  const columns = shape.at(-1) ?? 0;
  if (shape.length < 2 || shape.length > 3 || columns < 3 || columns > 64) {
    throw new FileError(
      `${name} has shape (${shape.join(", ")}); a cloud is (N, 3) or (H, W, 3), or wider.`,
    );
  }
  const count = product(shape.slice(0, -1));
  const fortran = /'fortran_order':\s*True/.test(head);
  if (fortran && shape.length > 2)
    throw new FileError(`${name} is a grid in Fortran order, which is not read.`);
  return cloudOfColumns(name, plain(body, count, columns, type, fortran));
}

function plain(
  body: Uint8Array,
  count: number,
  columns: number,
  { type, little }: Typed,
  fortran: boolean,
): Map<string, Values> {
  const names = [
    "x",
    "y",
    "z",
    columns === 6 ? "red" : "intensity",
    columns === 6 ? "green" : "column4",
    columns === 6 ? "blue" : "column5",
  ];
  const size = sizeOf(type);
  const fields = Array.from({ length: columns }, (_, k): Field => ({
    name: names[k] ?? `column${k}`,
    type,
    offset: k * size,
  }));
  if (!fortran) return readColumns(body, count, columns * size, fields, little);
  if (body.byteLength < count * columns * size) throw new FileError("The file is truncated.");
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const get = getter(type, little);
  return new Map(
    fields.map(({ name }, k) => {
      const values = allocate(type, count);
      for (let i = 0; i < count; i++) values[i] = get(view, (k * count + i) * size);
      return [name, values] as const;
    }),
  );
}

function readStructured(
  name: string,
  body: Uint8Array,
  descr: string,
  shape: readonly number[],
): Cloud {
  const fields: Field[] = [];
  let [stride, little] = [0, true];
  for (const [, field, code, inner] of descr.matchAll(
    /\('([^']*)',\s*'([^']*)'(?:,\s*\(([^)]*)\))?\)/g,
  )) {
    const padding = /^\|V(\d+)$/.exec(code!);
    const typed = typeOf(code!);
    if (padding) stride += Number(padding[1]);
    else if (!typed) throw new FileError(`${name} holds values that are no numbers.`);
    else {
      little = typed.little;
      const width = product((inner ?? "1").split(",").filter((n) => n.trim()));
      for (let k = 0; k < width; k++, stride += sizeOf(typed.type)) {
        const column = width > 1 ? `${field}${k}` : field!;
        fields.push({ name: column, type: typed.type, offset: stride });
      }
    }
  }
  return cloudOfColumns(name, readColumns(body, product(shape), stride, fields, little));
}

function product(numbers: readonly (number | string)[]): number {
  return numbers.reduce<number>((total, n) => total * Number(n), 1);
}

interface Typed {
  readonly type: NumberType;
  readonly little: boolean;
}

function typeOf(code: string): Typed | undefined {
  const match = /^([<>|=])([iufb])([1248])$/.exec(code);
  if (!match) return undefined;
  const kind = match[2] === "b" ? "u" : match[2];
  return { type: `${kind}${match[3]}` as NumberType, little: match[1] !== ">" };
}
