// Two pictures with one camera: the cloud, or a sample to compare with, and the sample.

import { Color } from "three";
import { type Framed } from "./framing";
import { Orbit } from "./orbit";
import { Painter, panesOf, type Pane } from "./painter";
import { PointSet, mixedRows } from "./points";
import type { Signal } from "../base/signal";

const SLOW_MS = 40;
const QUICK_MS = 22;
const MIN_POINTS = 20_000;
const REST_MS = 160;

/** How many points are drawn while the view moves, so that frames stay short. */
class Detail {
  private budget = 120_000;
  private took = 0;
  private timer = 0;

  /** @param rested called once the view rests, to draw every point. */
  constructor(private readonly rested: () => void) {}

  /** The view moves now. */
  move(): void {
    clearTimeout(this.timer);
    // Slow frames make slow moves: a short rest between two of them must not draw every point.
    const rest = Math.max(REST_MS, 2 * Math.min(this.took, 1000));
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.rested();
    }, rest);
  }

  /** Points to draw of `count` in this frame. */
  of(count: number): number {
    return this.timer ? Math.min(count, this.budget) : count;
  }

  /** Adapts the budget to a frame that took so many milliseconds with `drawn` points. */
  frame(took: number, drawn: number): void {
    this.took = took;
    if (took > SLOW_MS) this.budget = Math.max(MIN_POINTS, drawn * Math.max(0.4, SLOW_MS / took));
    else if (took < QUICK_MS && this.timer) this.budget = Math.max(this.budget, drawn * 1.15);
  }
}

/** A sample that is drawn: all points in order of choice, and how many of them are shown. */
class Chosen {
  readonly points = new PointSet(true);
  shown = 0;

  replace(positions: Float32Array): void {
    this.points.replace(positions);
    this.shown = positions.length / 3;
  }
}

export class Viewer {
  layout: "beside" | "over" = "beside";
  size = 1.5;
  readonly orbit: Orbit;
  private readonly painter: Painter;
  private readonly cloud = new PointSet(false);
  private readonly sample = new Chosen();
  private readonly compared = new Chosen();
  private readonly background = new Color();
  private readonly detail = new Detail(() => this.draw());
  private rows = 0;
  private isFirst = true;
  private isWaiting = false;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly view: Signal<string>,
  ) {
    this.painter = new Painter(canvas);
    this.orbit = new Orbit(canvas, () => this.move());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get canDraw(): boolean {
    return this.painter.canDraw;
  }

  /** Shows the first cloud as the link says, any other from its first view. */
  showCloud(framed: Framed): void {
    const order = mixedRows(framed.finite);
    this.cloud.replace(framed.positions, order);
    this.rows = order.length;
    this.showSample(new Float32Array());
    this.compare(new Float32Array(), 0);
    this.orbit.look(framed);
    if (this.isFirst) this.orbit.view = this.view.value;
    this.isFirst = false;
    this.view.set(this.orbit.view);
    this.draw();
  }

  showSample(positions: Float32Array): void {
    this.sample.replace(positions);
    this.draw();
  }

  /** Shows a sample in the place of the cloud; without points shows the cloud again. */
  compare(positions: Float32Array, count: number): void {
    this.compared.replace(positions);
    this.compared.shown = count;
    this.draw();
  }

  limitSample(count: number): void {
    this.sample.shown = count;
    // A slider moves as a view does.
    this.detail.move();
    this.draw();
  }

  paint(cloud: Uint8Array, sample: Uint8Array, compared: Uint8Array): void {
    this.cloud.paint(cloud);
    this.sample.points.paint(sample);
    this.compared.points.paint(compared);
    this.draw();
  }

  setBackground(color: string): void {
    this.background.set(color);
    this.draw();
  }

  /** Draws fewer points while the view moves, if all of them would be slow. */
  move(): void {
    this.detail.move();
    this.view.set(this.orbit.view);
    this.draw();
  }

  /** Draws in the next frame, once however often it is called. */
  draw(): void {
    if (this.isWaiting || !this.canDraw) return;
    this.isWaiting = true;
    requestAnimationFrame((now) => {
      this.isWaiting = false;
      const drawn = this.render();
      requestAnimationFrame((next) => this.detail.frame(next - now, drawn));
    });
  }

  /** Returns how many points were drawn. */
  private render(): number {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return 0;
    const ratio = Math.min(window.devicePixelRatio, 2);
    this.painter.resize(width, height, ratio);
    const [left, right] = this.panes();
    this.orbit.setAspect(left.width / left.height);
    this.restyle(ratio * Math.max(0.5, Math.min(1, left.height / 560)));
    const beside = this.compared.shown
      ? this.compared.points.limit(this.detail.of(this.compared.shown))
      : this.cloud.limit(this.detail.of(this.rows));
    const drawn = beside + this.sample.points.limit(this.detail.of(this.sample.shown));
    this.canvas.dataset.drawn = String(drawn);
    const camera = this.orbit.ready();
    const first = this.compared.shown ? this.compared.points : this.cloud;
    this.painter.draw(this.background, left, camera, [first], true);
    this.painter.draw(this.background, right, camera, [this.sample.points], right !== left);
    return drawn;
  }

  /** @param scale pixels of a point of size 1. */
  private restyle(scale: number): void {
    const { background } = this;
    const reference = this.orbit.distance;
    const unit = this.size * scale;
    // Few points are drawn larger, so that they can be seen at all.
    const larger = (shown: number): number =>
      Math.max(1.5, Math.min(4, 12 / Math.log10(Math.max(10, shown)) - 0.9));
    const sparse = Math.max(1, Math.min(2.4, (50_000 / Math.max(1, this.rows)) ** 0.35));
    const style = { reference, fade: 0, background };
    const fade = this.layout === "over" ? 0.5 : 0;
    this.cloud.restyle({ ...style, size: unit * sparse, fade });
    for (const { points, shown } of [this.sample, this.compared])
      points.restyle({ ...style, size: unit * Math.max(larger(shown), 1.3 * sparse) });
  }

  private panes(): readonly [Pane, Pane] {
    const { clientWidth, clientHeight } = this.canvas;
    return panesOf(clientWidth, clientHeight, this.layout === "over");
  }
}
