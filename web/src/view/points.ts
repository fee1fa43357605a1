// Points that are drawn together: positions, colors, and a size that shrinks with distance.

import { BufferAttribute, BufferGeometry, Color, Points, RawShaderMaterial } from "three";

const VERTEX = `
precision highp float;
uniform mat4 modelViewMatrix, projectionMatrix;
uniform float size, reference, fade;
uniform vec3 background;
attribute vec3 position;
attribute vec3 color;
varying vec3 shade;
void main() {
  vec4 seen = modelViewMatrix * vec4(position, 1.0);
  gl_Position = projectionMatrix * seen;
  gl_PointSize = max(1.0, size * clamp(reference / max(-seen.z, 1e-9), 0.65, 2.2));
  shade = mix(color, background, fade);
}`;
const SQUARE = `
precision mediump float;
varying vec3 shade;
void main() { gl_FragColor = vec4(shade, 1.0); }`;
/** Where the rim of a round point begins, as the square of a part of its size, and how light it is. */
export const RIM_FROM = 0.14;
export const RIM = 0.95;
const ROUND = `
precision mediump float;
varying vec3 shade;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  float away = dot(off, off);
  if (away > 0.25) discard;
  gl_FragColor = vec4(away > ${RIM_FROM} ? shade * ${RIM} : shade, 1.0);
}`;

export interface Style {
  /** In pixels of the canvas, at the distance `reference`. */
  readonly size: number;
  readonly reference: number;
  /** How much of the background is mixed in. */
  readonly fade: number;
  readonly background: Color;
}

export class PointSet {
  /** For three.js. */
  readonly object: Points<BufferGeometry, RawShaderMaterial>;
  positions: Float32Array = new Float32Array();
  colors = new Uint8Array();
  private order: Uint32Array | undefined;
  private sorted: Uint32Array | undefined;
  /** How many are drawn. */
  count = 0;
  style: Style = { size: 2, reference: 1, fade: 0, background: new Color() };

  constructor(readonly round: boolean) {
    const material = new RawShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: round ? ROUND : SQUARE,
      uniforms: {
        size: { value: 2 },
        reference: { value: 1 },
        fade: { value: 0 },
        background: { value: new Color() },
      },
    });
    this.object = new Points(new BufferGeometry(), material);
    this.object.frustumCulled = false;
    this.object.visible = false;
  }

  /**
   * New points, gray until they are painted.
   *
   * @param order rows in the order of drawing, so that the first ones show the whole shape.
   */
  place(positions: Float32Array, order?: Uint32Array): void {
    this.positions = positions;
    this.colors = new Uint8Array(positions.length).fill(140);
    this.order = order;
    this.sorted = order?.slice().sort();
    this.object.geometry.dispose();
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(positions, 3));
    geometry.setAttribute("color", new BufferAttribute(this.colors, 3, true));
    if (order) geometry.setIndex(new BufferAttribute(order, 1));
    this.object.geometry = geometry;
    this.object.visible = positions.length > 0;
    this.limit(order?.length ?? positions.length / 3);
  }

  /** RGB of each point, or of the first ones. */
  paint(colors: Uint8Array): void {
    this.colors.set(colors.subarray(0, this.colors.length));
    const attribute = this.object.geometry.getAttribute("color") as BufferAttribute | undefined;
    if (attribute) attribute.needsUpdate = true;
  }

  /** Draws only the first ones. */
  limit(count: number): void {
    this.count = Math.min(count, this.order?.length ?? this.positions.length / 3);
    this.object.geometry.setDrawRange(0, this.count);
  }

  /** Rows that are drawn. All of them as they lie in memory, and often beside each other in the picture. */
  get drawn(): Uint32Array | undefined {
    return this.count === this.order?.length ? this.sorted : this.order;
  }

  restyle(style: Style): void {
    this.style = style;
    const { uniforms } = this.object.material;
    for (const [name, value] of Object.entries(style)) uniforms[name]!.value = value;
  }
}

/** The finite rows, mixed: any number of the first ones is spread over the cloud. */
export function mixedRows(finite: Uint8Array): Uint32Array {
  const rows = Uint32Array.from({ length: finite.length }, (_, i) => i).filter((i) => finite[i]);
  // A shuffle that is the same each time, so that pictures are too.
  let state = 1;
  for (let i = rows.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [rows[i], rows[j]] = [rows[j]!, rows[i]!];
  }
  return rows;
}
