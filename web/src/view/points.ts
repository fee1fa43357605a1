// Points that are drawn together: positions, colors, and one size in pixels.

import { BufferAttribute, BufferGeometry, DataTexture, Points, PointsMaterial } from "three";

export class PointSet extends Points<BufferGeometry, PointsMaterial> {
  private rows = 0;

  /** @param round draws disks instead of squares. */
  constructor(round: boolean) {
    const shape = round ? { map: disk(), alphaTest: 0.5 } : {};
    super(
      new BufferGeometry(),
      new PointsMaterial({ sizeAttenuation: false, vertexColors: true, ...shape }),
    );
    this.frustumCulled = false;
    this.replace(new Float32Array());
  }

  /**
   * Draws other points, gray until they are painted.
   *
   * @param order rows in the order of drawing, so that the first ones show the whole shape.
   */
  replace(positions: Float32Array, order?: Uint32Array): void {
    this.geometry.dispose();
    this.geometry = new BufferGeometry();
    this.geometry.setAttribute("position", new BufferAttribute(positions, 3));
    const gray = new Uint8Array(positions.length).fill(140);
    this.geometry.setAttribute("color", new BufferAttribute(gray, 3, true));
    if (order) this.geometry.setIndex(new BufferAttribute(order, 1));
    this.rows = order?.length ?? positions.length / 3;
    this.visible = this.rows > 0;
  }

  /** Sets the RGB of each point, or of the first ones. */
  paint(colors: Uint8Array): void {
    const attribute = this.geometry.getAttribute("color") as BufferAttribute;
    const all = attribute.array as Uint8Array;
    all.set(colors.subarray(0, all.length));
    attribute.needsUpdate = true;
  }

  /** Draws only the first ones, in a size in pixels of the page. */
  limit(count: number, size: number): void {
    this.geometry.setDrawRange(0, Math.min(count, this.rows));
    this.material.size = size;
  }
}

function disk(): DataTexture {
  const size = 32;
  const pixels = new Uint8Array(4 * size * size).fill(255);
  for (let i = 0; i < size * size; i++) {
    const [x, y] = [(i % size) + 0.5, Math.floor(i / size) + 0.5];
    if (Math.hypot(x - size / 2, y - size / 2) > size / 2) pixels[4 * i + 3] = 0;
  }
  const texture = new DataTexture(pixels, size, size);
  texture.needsUpdate = true;
  return texture;
}

/** The finite rows, shuffled: any number of the first ones is spread over the cloud. */
export function mixedRows(finite: Uint8Array): Uint32Array {
  const rows = new Uint32Array(finite.length).map((_, i) => i).filter((i) => finite[i]);
  // The same shuffle each time, so that pictures are the same too.
  let state = 1;
  for (let i = rows.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [rows[i], rows[j]] = [rows[j]!, rows[i]!];
  }
  return rows;
}
