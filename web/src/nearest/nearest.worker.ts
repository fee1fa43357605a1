// Worker that finds the nearest sample of each point, by a grid whose cells grow until each has one.

export interface Question {
  readonly id: number;
  /** (N, 3), as the server measures. */
  readonly positions: Float32Array;
  /** One byte per point: 0 leaves it out. */
  readonly wanted: Uint8Array;
  /** Rows of the samples. */
  readonly order: Int32Array;
  /** An estimate of the covering radius. */
  readonly guess: number;
}

export type Answer = Nearest & { readonly id: number };

export interface Nearest {
  /** Position of the sample among the samples, per point; -1 for rows that are left out. */
  readonly assignment: Int32Array;
  /** To that sample, per point. */
  readonly distance: Float32Array;
  /** The largest distance. */
  readonly radius: number;
}

/**
 * The lowest of the nearest samples of each point, in the server's own arithmetic.
 *
 * @param positions (N, 3), the points.
 * @param wanted one byte per point: 0 leaves it out.
 * @param order rows of the samples in `positions`.
 * @param guess side of a cell to begin with; the covering radius is the best one.
 */
function nearestSamples(
  positions: Float32Array,
  wanted: Uint8Array,
  order: Int32Array,
  guess: number,
): Nearest {
  const count = positions.length / 3;
  const assignment = new Int32Array(count).fill(-1);
  const squared = new Float32Array(count).fill(Infinity);
  let pending = new Int32Array(count).map((_, i) => i).filter((i) => wanted[i]);
  let side = Math.max(guess, smallestSide(positions, wanted));
  while (pending.length && order.length) {
    const grid = new Grid(positions, order, side);
    pending = pending.filter((i) => {
      grid.search(i, assignment, squared);
      // A sample in a cell that was not searched is at least one side away.
      return !(squared[i]! <= side * side * 0.9999);
    });
    side *= 2;
  }
  const distance = squared.map(Math.sqrt);
  const radius = distance.reduce((most, value, i) => (wanted[i] ? Math.max(most, value) : most), 0);
  return { assignment, distance, radius };
}

/** A side above 0 for clouds whose points coincide. */
function smallestSide(positions: Float32Array, wanted: Uint8Array): number {
  let largest = 0;
  for (let i = 0; i < positions.length; i++)
    if (wanted[(i / 3) | 0]) largest = Math.max(largest, Math.abs(positions[i]!));
  return Math.max(largest * 1e-12, 1e-30);
}

class Grid {
  private readonly heads: Int32Array;
  private readonly following: Int32Array;
  private readonly mask: number;

  constructor(
    private readonly positions: Float32Array,
    private readonly order: Int32Array,
    private readonly side: number,
  ) {
    let size = 16;
    while (size < 2 * order.length) size *= 2;
    this.mask = size - 1;
    this.heads = new Int32Array(size).fill(-1);
    this.following = new Int32Array(order.length);
    // Backwards, so that each list has its lowest sample first.
    for (let j = order.length - 1; j >= 0; j--) {
      const slot = this.slot(
        this.cell(order[j]!, 0),
        this.cell(order[j]!, 1),
        this.cell(order[j]!, 2),
      );
      this.following[j] = this.heads[slot]!;
      this.heads[slot] = j;
    }
  }

  private cell(row: number, axis: number): number {
    return Math.floor(this.positions[3 * row + axis]! / this.side);
  }

  private slot(x: number, y: number, z: number): number {
    return (Math.imul(x, 73856093) ^ Math.imul(y, 19349663) ^ Math.imul(z, 83492791)) & this.mask;
  }

  /** Searches the point's own cell and those around it; two cells may share a list. */
  search(row: number, assignment: Int32Array, squared: Float32Array): void {
    const { positions, order } = this;
    const [x, y, z] = [this.cell(row, 0), this.cell(row, 1), this.cell(row, 2)];
    let best = squared[row]!;
    let found = assignment[row]!;
    for (let k = 0; k < 27; k++) {
      const slot = this.slot(x + (k % 3) - 1, y + (((k / 3) | 0) % 3) - 1, z + ((k / 9) | 0) - 1);
      for (let j = this.heads[slot]!; j >= 0; j = this.following[j]!) {
        const value = squaredDistance(positions, row, order[j]!);
        if (value < best || (value === best && j < found)) [best, found] = [value, j];
      }
    }
    squared[row] = best;
    assignment[row] = found;
  }
}

/** fma(dz, dz, fma(dy, dy, dx * dx)) in float32: a product of two is exact in float64. */
function squaredDistance(positions: Float32Array, a: number, b: number): number {
  const dx = Math.fround(positions[3 * a]! - positions[3 * b]!);
  const dy = Math.fround(positions[3 * a + 1]! - positions[3 * b + 1]!);
  const dz = Math.fround(positions[3 * a + 2]! - positions[3 * b + 2]!);
  return Math.fround(dz * dz + Math.fround(dy * dy + Math.fround(dx * dx)));
}

self.onmessage = ({ data }: MessageEvent<Question>): void => {
  const { id, positions, wanted, order, guess } = data;
  const nearest = nearestSamples(positions, wanted, order, guess);
  const transfer = [nearest.assignment.buffer, nearest.distance.buffer] as ArrayBuffer[];
  self.postMessage({ ...nearest, id } satisfies Answer, { transfer });
};
