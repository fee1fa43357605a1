// Points as the GPU draws them: positions, colors, and a size that shrinks with distance.

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
  gl_FragColor = vec4(shade * (1.0 - 0.9 * max(0.0, away - 0.14)), 1.0);
}`;

export class PointSet {
  readonly object: Points<BufferGeometry, RawShaderMaterial>;

  /** Round ones cost a software renderer more; they are for the few. */
  constructor(round: boolean) {
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
    this.object.geometry.dispose();
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(positions, 3));
    geometry.setAttribute(
      "color",
      new BufferAttribute(new Uint8Array(positions.length).fill(140), 3, true),
    );
    if (order) geometry.setIndex(new BufferAttribute(order, 1));
    this.object.geometry = geometry;
    this.object.visible = positions.length > 0;
  }

  /** RGB of each point, or of the first ones. */
  paint(colors: Uint8Array): void {
    const attribute = this.object.geometry.getAttribute("color") as BufferAttribute | undefined;
    if (!attribute) return;
    (attribute.array as Uint8Array).set(colors.subarray(0, attribute.array.length));
    attribute.needsUpdate = true;
  }

  /** Draws only the first ones. */
  limit(count: number): void {
    this.object.geometry.setDrawRange(0, count);
  }

  style(size: number, reference: number, fade: number, background: Color): void {
    const { uniforms } = this.object.material;
    uniforms.size!.value = size;
    uniforms.reference!.value = reference;
    uniforms.fade!.value = fade;
    (uniforms.background!.value as Color).copy(background);
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
