// Point sets drawn by the processor, with the shapes, sizes and colors that points.ts gives them in WebGL.

import { Matrix4, type Color, type PerspectiveCamera } from "three";
import type { Pane, Painter } from "./painter";
import { RIM, RIM_FROM, type PointSet } from "./points";

/** A rectangle of pixels from its upper left corner. */
interface Area {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export class SplatPainter implements Painter {
  readonly isDone = true;
  private readonly context: CanvasRenderingContext2D;
  private image = new ImageData(1, 1);
  /** The bytes of the image, a word for each pixel. */
  private pixels = new Uint32Array(1);
  /** One over the distance of what is seen at each pixel. */
  private nearness = new Float32Array(1);
  private ratio = 1;

  /** @throws Error the canvas has a context of another kind. */
  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("The browser gave no context to draw with.");
    this.context = context;
  }

  resize(width: number, height: number, ratio: number): void {
    this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.floor(width * ratio));
    this.canvas.height = Math.max(1, Math.floor(height * ratio));
    this.image = new ImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.nearness = new Float32Array(this.pixels.length);
  }

  draw(
    pane: Pane,
    background: Color,
    camera: PerspectiveCamera,
    layers: readonly (readonly PointSet[])[],
  ): void {
    const area = this.areaOf(pane);
    const back = background.toArray().map((part) => Math.round(255 * part));
    this.fill(this.pixels, area, word(back[0]!, back[1]!, back[2]!));
    const matrix = new Matrix4().multiplyMatrices(
      camera.projectionMatrix,
      camera.matrixWorldInverse,
    );
    for (const layer of layers) {
      this.fill(this.nearness, area, 0);
      for (const set of layer) this.splat(set, matrix, camera.near, area);
    }
    const { left, top, width, height } = area;
    this.context.putImageData(this.image, 0, 0, left, top, width, height);
  }

  private areaOf({ x, y, width, height }: Pane): Area {
    const [left, right] = [x, x + width].map((at) => Math.round(at * this.ratio));
    const [bottom, top] = [y, y + height].map(
      (at) => this.image.height - Math.round(at * this.ratio),
    );
    const inside = Math.max(0, top!);
    return {
      left: left!,
      top: inside,
      width: Math.min(right!, this.image.width) - left!,
      height: bottom! - inside,
    };
  }

  private fill(words: Uint32Array | Float32Array, area: Area, value: number): void {
    const { width } = this.image;
    for (let y = area.top; y < area.top + area.height; y++)
      words.fill(value, y * width + area.left, y * width + area.left + area.width);
  }

  /** One function without objects in it, since a call for each point would cost as much as the point. */
  private splat(set: PointSet, matrix: Matrix4, near: number, area: Area): void {
    const { pixels, nearness } = this;
    const { positions, colors, drawn, count, round } = set;
    const { size: standard, reference, fade, background } = set.style;
    const { left, top, width, height } = area;
    const [ax, ay, , aw, bx, by, , bw, cx, cy, , cw, dx, dy, , dw] = matrix.elements;
    const [keep, stride, right, bottom] = [1 - fade, this.image.width, left + width, top + height];
    const [red0, green0, blue0] = background.toArray().map((part) => 255 * part * fade);
    for (let i = 0; i < count; i++) {
      const at = 3 * (drawn ? drawn[i]! : i);
      const x = positions[at]!;
      const y = positions[at + 1]!;
      const z = positions[at + 2]!;
      const away = aw * x + bw * y + cw * z + dw;
      if (away < near) continue;
      const close = 1 / away;
      const half = Math.max(1, standard * Math.max(0.65, Math.min(2.2, reference * close))) / 2;
      // Pixels whose middle is within; middles lie half a pixel off the corners.
      const u = left + (((ax * x + bx * y + cx * z + dx) * close + 1) / 2) * width - 0.5;
      const v = top + ((1 - (ay * x + by * y + cy * z + dy) * close) / 2) * height - 0.5;
      const low = Math.max(top, Math.ceil(v - half));
      const high = Math.min(bottom, Math.ceil(v + half));
      const red = red0! + keep * colors[at]!;
      const green = green0! + keep * colors[at + 1]!;
      const blue = blue0! + keep * colors[at + 2]!;
      const body = word(red, green, blue);
      const rim = round ? word(red * RIM, green * RIM, blue * RIM) : body;
      const inner = 4 * RIM_FROM * half * half;
      for (let row = low; row < high; row++) {
        const off = (row - v) * (row - v);
        const reach = round ? Math.sqrt(Math.max(0, half * half - off)) : half;
        const from = Math.max(left, Math.ceil(u - reach));
        const to = Math.min(right, Math.ceil(u + reach));
        for (let column = from; column < to; column++) {
          const pixel = row * stride + column;
          if (close <= nearness[pixel]!) continue;
          nearness[pixel] = close;
          pixels[pixel] = off + (column - u) * (column - u) > inner ? rim : body;
        }
      }
    }
  }
}

/** As ImageData has it, on the little-endian machines that browsers run on. */
function word(red: number, green: number, blue: number): number {
  return -0x1000000 | (blue << 16) | (green << 8) | red;
}
