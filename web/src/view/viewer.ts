// Two pictures with one camera: the cloud, or a sample to compare with, and the sample.

import { Color, Vector3 } from "three";
import { Detail } from "./detail";
import { gather, type Framed } from "./framing";
import { Orbit } from "./orbit";
import { Painter, panesOf, type Pane } from "./painter";
import { PointSet, mixedRows } from "./points";
import type { Signal } from "../base/signal";

const MARK = [235, 64, 110];
/** Pixels between a click and the sample that it chooses. */
const NEAR = 14;

/** A sample that is drawn: all positions in order of choice, and how many of them are shown. */
class Chosen {
  readonly points = new PointSet(true);
  positions: Float32Array = new Float32Array();
  shown = 0;

  replace(positions: Float32Array): void {
    this.positions = positions;
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
  private readonly marked = new PointSet(true);
  private readonly cell = new PointSet(false);
  private positions: Float32Array = new Float32Array();
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
    // Visible behind other points too.
    for (const points of [this.marked, this.cell]) points.material.depthTest = false;
    this.orbit = new Orbit(canvas, () => this.move());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get canDraw(): boolean {
    return this.painter.canDraw;
  }

  /** Shows the first cloud as the link says, any other from its first view. */
  showCloud(framed: Framed): void {
    const order = mixedRows(framed.finite);
    this.positions = framed.positions;
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
    this.mark(undefined, []);
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

  /** Draws one sample larger, and the points of its cell over all others. */
  mark(sample: number | undefined, cell: ArrayLike<number>): void {
    this.marked.replace(gather(this.sample.positions, sample === undefined ? [] : [sample]));
    this.cell.replace(gather(this.positions, cell));
    this.marked.paint(Uint8Array.from(MARK));
    this.cell.paint(Uint8Array.from({ length: 3 * cell.length }, (_, i) => MARK[i % 3]!));
    this.draw();
  }

  setBackground(color: string): void {
    this.background.set(color);
    this.draw();
  }

  /** Red, green and blue of the background, 0 to 255. */
  get backgroundBytes(): number[] {
    return this.background.toArray().map((part) => 255 * part);
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
    const first = this.compared.shown ? [this.compared.points] : [this.cloud, this.cell];
    this.painter.draw(this.background, left, camera, first, true);
    this.painter.draw(
      this.background,
      right,
      camera,
      [this.sample.points, this.marked],
      right !== left,
    );
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
    this.cell.restyle({ ...style, size: unit * sparse });
    for (const { points, shown } of [this.sample, this.compared])
      points.restyle({ ...style, size: unit * Math.max(larger(shown), 1.3 * sparse) });
    this.marked.restyle({ ...style, size: unit * larger(this.sample.shown) + 9 * scale });
  }

  private panes(): readonly [Pane, Pane] {
    const { clientWidth, clientHeight } = this.canvas;
    return panesOf(clientWidth, clientHeight, this.layout === "over");
  }

  /** The sample nearest to a place on the canvas, if one is near. */
  sampleAt(x: number, y: number): number | undefined {
    const camera = this.orbit.ready();
    const bottom = this.canvas.clientHeight - y;
    const pane = this.panes().find(
      (each) =>
        x >= each.x && x < each.x + each.width && bottom >= each.y && bottom < each.y + each.height,
    );
    if (!pane) return undefined;
    const seen = new Vector3();
    let best: number | undefined;
    let nearest = NEAR ** 2;
    for (let i = 0; i < this.sample.shown; i++) {
      seen.fromArray(this.sample.positions, 3 * i).project(camera);
      if (Math.abs(seen.z) > 1) continue;
      const dx = pane.x + ((seen.x + 1) / 2) * pane.width - x;
      const dy = pane.y + ((seen.y + 1) / 2) * pane.height - bottom;
      // Of those at the same place, the one in front.
      const away = dx * dx + dy * dy + 4 * seen.z;
      if (away < nearest) [nearest, best] = [away, i];
    }
    return best;
  }
}
