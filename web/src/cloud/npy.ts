// NPY of numpy: (N, 3+), (H, W, 3+) and structured arrays.

import { FileError, cloudOfColumns, type Cloud } from "./cloud";
import { isNumberType, readColumns, type Property } from "./records";

export function readNpy(name: string, bytes: Uint8Array): Cloud {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = bytes[6]! > 1;
  const start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, start + length));
  if (head.slice(1, 6) !== "NUMPY") throw new FileError(`${name} is no NPY file.`);
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(head)?.[1] ?? "").match(/\d+/g)?.map(Number) ?? [];
  const planar = /'fortran_order':\s*True/.test(head);
  const [plain] = [...head.matchAll(/'descr':\s*'([^']*)'/g)];
  const width = plain ? (shape.pop() ?? 0) : 3;
  if (!shape.length || shape.length > 2 || width < 3 || width > 64 || (planar && shape[1]))
    throw new FileError(`${name} is no array of shape (N, 3) or (H, W, 3), or wider.`);
  const properties = plain ? plainOf(name, plain[1]!, width) : structuredOf(name, head);
  const count = shape.reduce((product, n) => product * n);
  const little = !/'descr':\s*(\[\([^,]*,\s*)?'>/.test(head);
  const body = bytes.subarray(start + length);
  return cloudOfColumns(name, readColumns(body, count, properties, { little, planar }));
}

function plainOf(name: string, code: string, width: number): Property[] {
  const names = ["x", "y", "z", ...(width === 6 ? ["red", "green", "blue"] : ["intensity"])];
  return Array.from({ length: width }, (_, k) => propertyOf(name, names[k] ?? `column${k}`, code));
}

function structuredOf(name: string, head: string): Property[] {
  const fields = head.matchAll(/\('([^']*)',\s*'([^']*)'(?:,\s*\((\d+),?\))?\)/g);
  return [...fields].map(([, field, code, width]) => ({
    width: Number(width ?? 1),
    ...propertyOf(name, field!, code!),
  }));
}

function propertyOf(name: string, field: string, code: string): Property {
  const padding = /^\|V(\d+)$/.exec(code);
  if (padding) return { name: "_", type: "u1", width: Number(padding[1]) };
  const type = code.slice(1).replace("b", "u");
  if (!isNumberType(type)) throw new FileError(`${name} holds values of the type "${code}".`);
  return { name: field, type };
}
