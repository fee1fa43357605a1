// Two pictures with one camera: the cloud and its sample, beside or over each other.

import {
  Color,
  ColorManagement,
  LinearSRGBColorSpace,
  Scene,
  Vector2,
  Vector3,
  WebGLRenderer,
} from "three";
import { OrbitCamera } from "./camera";
import { Detail } from "./detail";
import type { Framed } from "./framing";
import { panesOf, type Panes } from "./panes";
import { PointSet, mixedRows } from "./points";

// Colors are painted as they shall be seen.
ColorManagement.enabled = false;

export class Viewer {
  readonly orbit = new OrbitCamera();
  layout: "beside" | "over" = "beside";
  size = 1.5;
  private readonly renderer: WebGLRenderer;
  private readonly original = new PointSet(false);
  private readonly sample = new PointSet(true);
  private readonly marked = new PointSet(true);
  private readonly left = new Scene();
  private readonly right = new Scene();
  private readonly background = new Color();
  private samplePositions: Float32Array = new Float32Array();
  private shown = 0;
  private rows = 0;
  private waiting = false;
  /** Whether the picture of the cloud is to be drawn again, not only that of the sample. */
  private stale = true;
  private readonly detail = new Detail(() => this.draw());

  /** @throws Error the browser has no WebGL. */
  constructor(private readonly canvas: HTMLCanvasElement) {
    this.renderer = new WebGLRenderer({
      canvas,
      antialias: false,
      preserveDrawingBuffer: true,
      powerPreference: "high-performance",
    });
    this.renderer.outputColorSpace = LinearSRGBColorSpace;
    this.renderer.autoClear = false;
    this.renderer.sortObjects = false;
    // Asking for the errors of a shader waits until it is compiled.
    this.renderer.debug.checkShaderErrors = import.meta.env.DEV;
    this.left.add(this.original.object);
    this.right.add(this.sample.object, this.marked.object);
    // The first frame compiles the shaders, before there is a cloud that would wait for them.
    for (const points of [this.original, this.sample]) {
      points.place(new Float32Array(3));
      points.limit(0);
    }
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  showCloud(framed: Framed, keepView: boolean): void {
    const rows = mixedRows(framed.finite);
    this.original.place(framed.positions, rows);
    this.rows = rows.length;
    this.showSample(new Float32Array());
    if (!keepView) this.orbit.look(framed);
    this.draw();
  }

  /** All samples in order of choice; `limitSample` says how many are drawn. */
  showSample(positions: Float32Array): void {
    this.samplePositions = positions;
    this.sample.place(positions);
    this.mark(undefined);
    this.limitSample(positions.length / 3);
  }

  limitSample(count: number): void {
    this.shown = count;
    // A slider moves as a view does.
    this.detail.move();
    this.drawSample();
  }

  paintCloud(colors: Uint8Array): void {
    this.original.paint(colors);
    this.draw();
  }

  paintSample(colors: Uint8Array): void {
    this.sample.paint(colors);
    this.drawSample();
  }

  /** Draws one sample larger. */
  mark(sample: number | undefined): void {
    this.marked.place(
      sample === undefined
        ? new Float32Array()
        : this.samplePositions.slice(3 * sample, 3 * sample + 3),
    );
    this.marked.paint(new Uint8Array([235, 64, 110]));
    this.drawSample();
  }

  setBackground(color: string): void {
    this.background.set(color);
    this.draw();
  }

  /** Red, green and blue of the background, 0 to 255. */
  get backgroundBytes(): number[] {
    return this.background.toArray().map((part) => 255 * part);
  }

  /** As `draw`, while the view moves: fewer points where all of them would be slow. */
  move(): void {
    this.detail.move();
    this.draw();
  }

  /** Draws in the next frame, once however often it is asked. */
  draw(): void {
    this.stale = true;
    this.drawSample();
  }

  /** As `draw`; the picture of the cloud is as it was. */
  private drawSample(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame((now) => {
      this.waiting = false;
      this.render();
      requestAnimationFrame((next) => this.detail.frame(next - now, this.rows + this.shown));
    });
  }

  private render(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = Math.min(window.devicePixelRatio, 2);
    if (this.renderer.getPixelRatio() !== ratio) this.renderer.setPixelRatio(ratio);
    const { width: before, height: tall } = this.renderer.getSize(new Vector2());
    if (before !== width || tall !== height) this.renderer.setSize(width, height, false);
    this.renderer.setClearColor(this.background, 1);
    const over = this.layout === "over";
    const all = over || this.stale;
    this.stale = false;
    const panes = this.panes();
    this.orbit.setAspect(panes.width / panes.height);
    const camera = this.orbit.place();
    const { seenFrom } = this.orbit;
    // Few samples are drawn larger, so that they can be seen at all.
    const larger = Math.max(1.5, Math.min(4, 12 / Math.log10(Math.max(10, this.shown)) - 0.9));
    const sparse = Math.max(1, Math.min(2.4, (50_000 / Math.max(1, this.rows)) ** 0.35));
    this.original.style(this.size * ratio * sparse, seenFrom, over ? 0.5 : 0, this.background);
    this.sample.style(
      this.size * ratio * Math.max(larger, 1.3 * sparse),
      seenFrom,
      0,
      this.background,
    );
    this.marked.style(this.size * ratio * larger + 9 * ratio, seenFrom, 0, this.background);
    this.renderer.setScissorTest(true);
    this.original.limit(this.detail.of(this.rows));
    this.sample.limit(this.detail.of(this.shown));
    panes.origins.forEach(([x, y], pane) => {
      if (pane === 0 && !all) return;
      this.renderer.setViewport(x, y, panes.width, panes.height);
      this.renderer.setScissor(x, y, panes.width, panes.height);
      this.renderer.clear();
      if (over || pane === 0) this.renderer.render(this.left, camera);
      if (over) this.renderer.clearDepth();
      if (over || pane === 1) this.renderer.render(this.right, camera);
    });
  }

  private panes(): Panes {
    return panesOf(this.canvas.clientWidth, this.canvas.clientHeight, this.layout === "over");
  }

  /** The sample nearest to a place on the canvas, within 14 pixels. */
  sampleAt(x: number, y: number): number | undefined {
    const panes = this.panes();
    const camera = this.orbit.place();
    const bottom = this.canvas.clientHeight - y;
    const [left, low] = panes.origins.find(
      ([a, b]) => x >= a && x < a + panes.width && bottom >= b && bottom < b + panes.height,
    ) ?? [0, 0];
    const seen = new Vector3();
    let best: number | undefined;
    let nearest = 14 ** 2;
    for (let i = 0; i < this.shown; i++) {
      seen.fromArray(this.samplePositions, 3 * i).project(camera);
      if (Math.abs(seen.z) > 1) continue;
      const dx = left + ((seen.x + 1) / 2) * panes.width - x;
      const dy = low + ((seen.y + 1) / 2) * panes.height - bottom;
      // Of those at the same place, the one in front.
      const away = dx * dx + dy * dy + 4 * seen.z;
      if (away < nearest) [nearest, best] = [away, i];
    }
    return best;
  }
}
