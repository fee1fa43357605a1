// Text with one point a line: XYZ, CSV, PTS, and the bodies of ASCII PLY and PCD.

import { FileError, cloudOfColumns, type Cloud, type Values } from "./cloud";
import { allocate, type Property } from "./records";

/** Names of the columns behind x, y and z, by the number of columns. */
const NAMES: Record<number, readonly string[]> = {
  4: ["intensity"],
  6: ["red", "green", "blue"],
  7: ["intensity", "red", "green", "blue"],
};
const COMMENT = /^(#|\/\/)\s*/;

/**
 * Reads the first `count` lines of a body.
 *
 * @throws FileError there are fewer.
 */
export function readRows(
  body: Uint8Array,
  count: number,
  properties: readonly Property[],
): Map<string, Values> {
  const lines = linesOf(body).slice(0, count);
  if (lines.length < count)
    throw new FileError(
      `The file is truncated: it announces ${count} points and has ${lines.length}.`,
    );
  return table(
    lines.map((line) => line.split(/\s+/)),
    properties,
  );
}

/** Reads a table with or without names in its first line. Comments begin with # or //. */
export function readText(name: string, bytes: Uint8Array): Cloud {
  const lines = linesOf(bytes);
  const rows = lines.filter((line) => !COMMENT.test(line));
  // PTS begins with the number of points.
  if (rows.length > 1 && /^\d+$/.test(rows[0]!)) rows.shift();
  if (!rows.length) throw new FileError(`${name} has no points.`);
  const separator = rows[0]!.includes(";") ? /\s*;\s*/ : rows[0]!.includes(",") ? /\s*,\s*/ : /\s+/;
  const cut = (line: string): string[] =>
    line.split(separator).map((cell) => cell.replace(/^"(.*)"$/, "$1"));
  const head = cut(rows[0]!);
  const isNamed = head.some((cell) => cell && numberOf(cell) === undefined);
  const comment = lines.find((line) => COMMENT.test(line))?.replace(COMMENT, "");
  const names = isNamed ? cut(rows.shift()!).map(bare) : namesOf(cut(comment ?? ""), head.length);
  const properties = names.map((each): Property => ({ name: each, type: "f8" }));
  return cloudOfColumns(name, table(rows.map(cut), properties));
}

function linesOf(bytes: Uint8Array): string[] {
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/);
  return lines.map((line) => line.trim()).filter(Boolean);
}

/** A name without its unit: `X [m]` is x. */
function bare(name: string): string {
  return name.replace(/\s*[[(].*[\])]$/, "").trim();
}

/** The names in a comment, if they fit. */
function namesOf(comment: readonly string[], width: number): string[] {
  const given = comment.map(bare);
  if (given.length === width && given.some((cell) => /^x$/i.test(cell))) return given;
  const names = ["x", "y", "z", ...(NAMES[width] ?? [])];
  return Array.from({ length: width }, (_, k) => names[k] ?? `column${k}`);
}

/** Columns of rows; one with a word in it is left out, unless it is a coordinate. */
function table(
  rows: readonly (readonly string[])[],
  properties: readonly Property[],
): Map<string, Values> {
  const columns = new Map<string, Values>();
  properties.forEach(({ name, type }, k) => {
    const values = allocate(type, rows.length);
    const word = rows.findIndex((cells, row) => {
      const value = k < cells.length ? numberOf(cells[k]!) : undefined;
      values[row] = value ?? NaN;
      return value === undefined;
    });
    if (word < 0) columns.set(name, values);
    else if (/^[xyz]$/i.test(name))
      throw new FileError(
        `Point ${word} has ${JSON.stringify(rows[word]![k]?.slice(0, 20) ?? "nothing")} where a number should be.`,
      );
  });
  return columns;
}

/** NaN for an empty cell, undefined for a word. */
function numberOf(cell: string): number | undefined {
  if (!cell || /^[+-]?nan$/i.test(cell)) return NaN;
  const value = Number(cell.replace(/^([+-]?)inf(inity)?$/i, "$1Infinity"));
  return Number.isNaN(value) ? undefined : value;
}
