// Text with one point a line: XYZ, CSV, PTS, and the bodies of ASCII PLY and PCD.

import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";

/** Rows of numbers, as columns; `names` says how many. */
export function numbersOf(
  lines: Iterable<string>,
  names: readonly string[],
  count: number,
): Map<string, Values> {
  const columns = names.map(() => new Float64Array(count));
  let row = 0;
  for (const line of lines) {
    if (row === count) break;
    const cells = line.trim().split(/\s+/);
    if (cells.length < names.length)
      throw new FileError(`Point ${row} has ${cells.length} values of ${names.length}.`);
    for (let k = 0; k < names.length; k++) columns[k]![row] = parse(cells[k]!, row);
    row++;
  }
  if (row < count)
    throw new FileError(`The file is truncated: it announces ${count} points and has ${row}.`);
  return new Map(names.map((name, k) => [name, columns[k]!]));
}

function parse(cell: string, row: number): number {
  const value = Number(cell);
  if (Number.isNaN(value) && !/^[+-]?nan$/i.test(cell)) {
    const word = cell.toLowerCase();
    if (/^[+-]?inf(inity)?$/.test(word)) return word.startsWith("-") ? -Infinity : Infinity;
    throw new FileError(
      `Point ${row} has ${JSON.stringify(cell.slice(0, 20))} where a number should be.`,
    );
  }
  return value;
}

/** A table with or without names in its first line. Comments begin with # or //. */
export function readText(name: string, bytes: Uint8Array): Cloud {
  const text = new TextDecoder().decode(bytes);
  if (text.includes("\0")) throw new FileError(`${name} is no text.`);
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const comment = lines.find((line) => /^(#|\/\/)\s*[a-z]/i.test(line));
  const rows = lines.filter((line) => line && !/^(#|\/\/)/.test(line));
  // PTS begins with the number of points.
  if (rows.length > 1 && /^\d+$/.test(rows[0]!)) rows.shift();
  if (!rows.length) throw new FileError(`${name} has no points.`);
  const separator = rows[0]!.includes(";") ? /\s*;\s*/ : rows[0]!.includes(",") ? /\s*,\s*/ : /\s+/;
  const cut = (line: string): string[] =>
    line.split(separator).map((cell) => cell.replace(/^"(.*)"$/, "$1"));
  const head = cut(rows[0]!);
  const named = head.some(
    (cell) => cell !== "" && Number.isNaN(Number(cell)) && !/^[+-]?(nan|inf)/i.test(cell),
  );
  if (named) rows.shift();
  const names = named
    ? head.map(bare)
    : namesOf(comment?.replace(/^(#|\/\/)\s*/, ""), cut, head.length);
  return cloudOfColumns(name, table(rows.map(cut), names));
}

/** A name without its unit: `X [m]` is x. */
function bare(name: string): string {
  return name.replace(/\s*[[(].*[\])]$/, "").trim();
}

function namesOf(
  comment: string | undefined,
  cut: (line: string) => string[],
  width: number,
): string[] {
  const given = comment ? cut(comment).map(bare) : [];
  if (given.length === width && given.some((cell) => /^x$/i.test(cell))) return given;
  const rest =
    width === 4
      ? ["intensity"]
      : width === 6
        ? ["red", "green", "blue"]
        : width === 7
          ? ["intensity", "red", "green", "blue"]
          : [];
  return Array.from({ length: width }, (_, k) => ["x", "y", "z", ...rest][k] ?? `column${k}`);
}

function table(rows: readonly string[][], names: readonly string[]): Map<string, Values> {
  const columns = names.map(() => new Float64Array(rows.length));
  const numeric = names.map(() => true);
  rows.forEach((cells, row) => {
    if (cells.length < names.length)
      throw new FileError(`Point ${row} has ${cells.length} values of ${names.length}.`);
    for (let k = 0; k < names.length; k++) {
      const value = cells[k] === "" ? NaN : Number(cells[k]);
      if (Number.isNaN(value) && !/^(|[+-]?(nan|inf(inity)?))$/i.test(cells[k]!)) {
        // A column of words is left out; a word among coordinates is an error.
        if (/^[xyz]$/i.test(names[k]!)) parse(cells[k]!, row);
        numeric[k] = false;
      }
      columns[k]![row] = value;
    }
  });
  return new Map(names.map((name, k) => [name, columns[k]!] as const).filter((_, k) => numeric[k]));
}
