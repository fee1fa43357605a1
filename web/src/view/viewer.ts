// Two pictures with one camera: the cloud and its sample, beside or over each other.

import { Color, Vector3 } from "three";
import { OrbitCamera } from "./camera";
import { Detail } from "./detail";
import type { Framed } from "./framing";
import { painterFor, type Painter, type Renderer } from "./painter";
import { Signal } from "../ui/signal";
import { panesOf, type Panes } from "./panes";
import { PointSet, mixedRows } from "./points";

export class Viewer {
  readonly orbit = new OrbitCamera();
  layout: "beside" | "over" = "beside";
  size = 1.5;
  private readonly painter: Painter;
  private readonly original = new PointSet(false);
  private readonly sample = new PointSet(true);
  private readonly marked = new PointSet(true);
  private readonly left = [this.original];
  private readonly right = [this.sample, this.marked];
  private readonly background = new Color();
  private samplePositions: Float32Array = new Float32Array();
  private shown = 0;
  private rows = 0;
  private isFirst = true;
  private waiting = false;
  private drawnSize = "";
  private tookBefore = Infinity;
  /** Whether the picture of the cloud is to be drawn again, not only that of the sample. */
  private stale = true;
  private readonly detail = new Detail(() => this.draw());

  constructor(
    private readonly canvas: HTMLCanvasElement,
    renderer: Renderer,
    private readonly view: Signal<string>,
  ) {
    this.painter = painterFor(canvas, renderer);
    // The first frame compiles the shaders, before there is a cloud that would wait for them.
    for (const points of [this.original, this.sample]) {
      points.place(new Float32Array(3));
      points.limit(0);
    }
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** The first cloud is seen as a link says, any other as it is first seen. */
  showCloud(framed: Framed): void {
    const rows = mixedRows(framed.finite);
    this.original.place(framed.positions, rows);
    this.rows = rows.length;
    this.showSample(new Float32Array());
    this.orbit.look(framed);
    if (this.isFirst) this.orbit.view = this.view.value;
    this.isFirst = false;
    this.view.set(this.orbit.view);
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
    this.view.set(this.orbit.view);
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
      const began = performance.now();
      this.render();
      const all = this.rows + this.shown;
      const took = performance.now() - began;
      // A frame that other work of the machine made late says nothing of its points; two in a row do.
      if (this.painter.isDone) this.detail.frame(Math.min(took, this.tookBefore), all);
      else requestAnimationFrame((next) => this.detail.frame(next - now, all));
      this.tookBefore = took;
    });
  }

  private render(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = Math.min(window.devicePixelRatio, 2);
    const size = `${width} ${height} ${ratio}`;
    if (size !== this.drawnSize) {
      this.painter.resize(width, height, ratio);
      this.stale = true;
    }
    this.drawnSize = size;
    const over = this.layout === "over";
    const all = over || this.stale;
    this.stale = false;
    const panes = this.panes();
    this.orbit.setAspect(panes.width / panes.height);
    this.restyle(ratio, over);
    this.original.limit(this.detail.of(this.rows));
    this.sample.limit(this.detail.of(this.shown));
    this.canvas.dataset.drawn = String(this.original.count + this.sample.count);
    const camera = this.orbit.place();
    panes.origins.forEach(([x, y], pane) => {
      if (pane === 0 && !all) return;
      const layers = over ? [this.left, this.right] : [pane === 0 ? this.left : this.right];
      this.painter.draw({ ...panes, x, y }, this.background, camera, layers);
    });
  }

  private restyle(ratio: number, over: boolean): void {
    const { background } = this;
    const reference = this.orbit.seenFrom;
    const unit = this.size * ratio;
    // Few samples are drawn larger, so that they can be seen at all.
    const larger = Math.max(1.5, Math.min(4, 12 / Math.log10(Math.max(10, this.shown)) - 0.9));
    const sparse = Math.max(1, Math.min(2.4, (50_000 / Math.max(1, this.rows)) ** 0.35));
    const fade = over ? 0.5 : 0;
    this.original.restyle({ size: unit * sparse, reference, fade, background });
    const size = unit * Math.max(larger, 1.3 * sparse);
    this.sample.restyle({ size, reference, fade: 0, background });
    const marked = unit * larger + 9 * ratio;
    this.marked.restyle({ size: marked, reference, fade: 0, background });
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
