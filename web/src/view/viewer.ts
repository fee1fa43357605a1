// Two pictures with one camera: the cloud, or a sample to compare with, and the sample.

import { Color, ColorManagement, LinearSRGBColorSpace, Scene, WebGLRenderer } from "three";
import type { Framed } from "./framing";
import { Orbit } from "./orbit";
import { PointSet, mixedRows } from "./points";

/** Points that are drawn of each picture while the view moves. */
const MOVING = 250_000;
const REST_MS = 200;
/** Of a point, in pixels of the page. */
const SIZE = 1.5;

// Colors are drawn as they are given.
ColorManagement.enabled = false;

export class Viewer {
  private readonly renderer: WebGLRenderer | undefined;
  private readonly scene = new Scene();
  private readonly orbit: Orbit;
  private readonly cloud = new PointSet(false);
  private readonly sample = new PointSet(true);
  private readonly compared = new PointSet(true);
  private readonly background = new Color();
  private framed: Framed | undefined;
  /** How many points each picture has. */
  private counts = { cloud: 0, sample: 0, compared: 0 };
  private size = "";
  private timer = 0;
  private isWaiting = false;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.renderer = rendererOf(canvas);
    this.orbit = new Orbit(canvas, () => this.move());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** Whether the browser has WebGL. */
  get canDraw(): boolean {
    return this.renderer !== undefined;
  }

  showCloud(framed: Framed): void {
    const order = mixedRows(framed.finite);
    this.framed = framed;
    this.cloud.replace(framed.positions, order);
    this.counts = { cloud: order.length, sample: 0, compared: 0 };
    this.reset();
  }

  /** Shows the first `count` of the points of a sample; in the place of the cloud: `compared`. */
  showSample(which: "sample" | "compared", count: number, positions?: Float32Array): void {
    if (positions) this[which].replace(positions);
    this.counts[which] = count;
    this.move();
  }

  paint(cloud: Uint8Array, sample: Uint8Array, compared: Uint8Array): void {
    this.cloud.paint(cloud);
    this.sample.paint(sample);
    this.compared.paint(compared);
    this.draw();
  }

  setBackground(color: string): void {
    this.background.set(color);
    this.draw();
  }

  /** Back to the first view. */
  reset(): void {
    if (this.framed) this.orbit.look(this.framed, this.panes().aspect);
    this.draw();
  }

  /** Draws fewer points until the view rests. */
  private move(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.draw();
    }, REST_MS);
    this.draw();
  }

  /** Draws in the next frame, once however often it is called. */
  private draw(): void {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.render();
    });
  }

  private render(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!this.renderer || !width || !height) return;
    this.resize(this.renderer, width, height);
    this.limit();
    const { aspect, places } = this.panes();
    this.orbit.prepare(aspect);
    this.drawPane(places[0], this.counts.compared ? this.compared : this.cloud);
    this.drawPane(places[1], this.sample);
  }

  /** Another size makes the canvas anew. */
  private resize(renderer: WebGLRenderer, width: number, height: number): void {
    const ratio = Math.min(window.devicePixelRatio, 2);
    const size = `${width} ${height} ${ratio}`;
    if (size === this.size) return;
    this.size = size;
    renderer.setPixelRatio(ratio);
    renderer.setSize(width, height, false);
  }

  private limit(): void {
    const { cloud, sample, compared } = this.counts;
    // Few points are drawn larger, so that they can be seen at all.
    const sparse = Math.max(1, Math.min(2.4, (50_000 / Math.max(1, cloud)) ** 0.35));
    const larger = (shown: number): number =>
      Math.max(1.5, 1.3 * sparse, Math.min(4, 12 / Math.log10(Math.max(10, shown)) - 0.9));
    const most = this.timer ? MOVING : Infinity;
    this.cloud.limit(Math.min(cloud, most), SIZE * sparse);
    this.sample.limit(Math.min(sample, most), SIZE * larger(sample));
    this.compared.limit(Math.min(compared, most), SIZE * larger(compared));
  }

  private drawPane([x, y, width, height]: Pane, points: PointSet): void {
    this.renderer!.setViewport(x, y, width, height);
    this.renderer!.setScissor(x, y, width, height);
    this.renderer!.setClearColor(this.background, 1);
    this.scene.clear();
    this.scene.add(points);
    this.renderer!.render(this.scene, this.orbit.camera);
  }

  /** Halves of the canvas, as the style sheet places the captions. */
  private panes(): { aspect: number; places: readonly [Pane, Pane] } {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return w > h
      ? {
          aspect: w / 2 / h,
          places: [
            [0, 0, w / 2, h],
            [w / 2, 0, w / 2, h],
          ],
        }
      : {
          aspect: w / (h / 2),
          places: [
            [0, h / 2, w, h / 2],
            [0, 0, w, h / 2],
          ],
        };
  }
}

/** Left, bottom, width and height in pixels of the page. */
type Pane = readonly [number, number, number, number];

/** Undefined where the browser has no WebGL. */
function rendererOf(canvas: HTMLCanvasElement): WebGLRenderer | undefined {
  const context = canvas.getContext("webgl2", {
    antialias: false,
    preserveDrawingBuffer: true,
    powerPreference: "high-performance",
  });
  if (!context) return undefined;
  const renderer = new WebGLRenderer({ canvas, context });
  renderer.outputColorSpace = LinearSRGBColorSpace;
  renderer.sortObjects = false;
  renderer.setScissorTest(true);
  return renderer;
}
