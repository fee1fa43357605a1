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
const ROUND = `
precision mediump float;
varying vec3 shade;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  float away = dot(off, off);
  if (away > 0.25) discard;
  gl_FragColor = vec4(away > 0.14 ? shade * 0.95 : shade, 1.0);
}`;

export interface Style {
  /** In pixels of the canvas, at the distance `reference`. */
  readonly size: number;
  readonly reference: number;
  /** Share of the background that is mixed in. */
  readonly fade: number;
  readonly background: Color;
}

export class PointSet extends Points<BufferGeometry, RawShaderMaterial> {
  private rows = 0;

  constructor(round: boolean) {
    const uniforms = { size: { value: 1 }, reference: { value: 1 }, fade: { value: 0 } };
    super(
      new BufferGeometry(),
      new RawShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: round ? ROUND : SQUARE,
        uniforms: { ...uniforms, background: { value: new Color() } },
      }),
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
    this.limit(this.rows);
  }

  /** Sets the RGB of each point, or of the first ones. */
  paint(colors: Uint8Array): void {
    const attribute = this.geometry.getAttribute("color") as BufferAttribute;
    const all = attribute.array as Uint8Array;
    all.set(colors.subarray(0, all.length));
    attribute.needsUpdate = true;
  }

  /** Draws only the first ones; returns how many. */
  limit(count: number): number {
    const drawn = Math.min(count, this.rows);
    this.geometry.setDrawRange(0, drawn);
    return drawn;
  }

  restyle(style: Style): void {
    for (const [name, value] of Object.entries(style)) this.material.uniforms[name]!.value = value;
  }
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
