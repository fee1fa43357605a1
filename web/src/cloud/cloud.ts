// A point cloud in memory: coordinates, and the columns that came with them.

export type Values =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array;

export interface Cloud {
  readonly name: string;
  /** Of N points, x y z each, in the precision of the file. */
  readonly points: Float32Array | Float64Array;
  readonly count: number;
  /** N values each. */
  readonly attributes: ReadonlyMap<string, Values>;
  /** Of the coordinates, where it is known. */
  readonly unit?: "m";
}

/** A file that is no cloud; its message is one sentence for the person who dropped it. */
export class FileError extends Error {}

const AXES = [
  ["x", "y", "z"],
  ["easting", "northing", "elevation"],
  ["e", "n", "height"],
];

/**
 * A cloud of the columns of a table; columns whose names begin with "_" are padding.
 *
 * Coordinates stay float32 only where all three are float32 or shorter integers.
 *
 * @throws FileError no three columns are coordinates, or there is no row.
 */
export function cloudOfColumns(name: string, columns: ReadonlyMap<string, Values>): Cloud {
  const byName = new Map([...columns.keys()].map((key) => [key.toLowerCase().trim(), key]));
  const axes = AXES.find((names) => names.every((axis) => byName.has(axis)));
  if (!axes) throw new FileError(`${name} has no columns x, y and z.`);
  const keys = axes.map((axis) => byName.get(axis)!);
  const coordinates = keys.map((key) => columns.get(key)!);
  const count = coordinates[0]!.length;
  if (!count) throw new FileError(`${name} has no points.`);
  const isWide = coordinates.some(
    (v) => v instanceof Float64Array || (v.BYTES_PER_ELEMENT === 4 && !(v instanceof Float32Array)),
  );
  const points = isWide ? new Float64Array(3 * count) : new Float32Array(3 * count);
  coordinates.forEach((values, axis) => {
    for (let i = 0; i < count; i++) points[3 * i + axis] = values[i]!;
  });
  const attributes = [...columns].filter(([key]) => !keys.includes(key) && !key.startsWith("_"));
  return { name, points, count, attributes: new Map(attributes) };
}

/** One byte per point: 1 where all three coordinates are finite. */
export function finiteRows(points: Float32Array | Float64Array): Uint8Array {
  const finite = new Uint8Array(points.length / 3);
  for (let i = 0; i < finite.length; i++) {
    // A sum is finite only if its terms are; overflow of float64 is beyond any cloud.
    finite[i] = Number.isFinite(points[3 * i]! + points[3 * i + 1]! + points[3 * i + 2]!) ? 1 : 0;
  }
  return finite;
}
