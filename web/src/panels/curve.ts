// The curve of covering radii over numbers of samples in SVG, both axes logarithmic.

import { makeSvg } from "../base/dom";
import { count, measure } from "../base/format";

const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 10;
/** Points of the curve; more are finer than a pixel. */
const FINENESS = 360;

interface Axis {
  readonly low: number;
  readonly high: number;
  /** Pixels of both ends. */
  readonly from: number;
  readonly to: number;
}

export class Curve {
  private readonly svg = makeSvg("svg", { class: "chart", role: "img" });
  private radii: Float32Array | undefined;
  private m = 1;
  private x: Axis = { low: 1, high: 1, from: LEFT, to: LEFT };

  /** @param choose called with a number of samples that is pointed at. */
  constructor(
    host: HTMLElement,
    private readonly choose: (m: number) => void,
  ) {
    host.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(host);
    this.svg.addEventListener("pointerdown", (event) => {
      this.svg.setPointerCapture(event.pointerId);
      this.point(event);
    });
    this.svg.addEventListener("pointermove", (event) => this.point(event));
  }

  /** @param radii covering radius of the first i + 1 samples at i; none for an empty chart. */
  show(radii: Float32Array | undefined, m: number): void {
    [this.radii, this.m] = [radii, m];
    const label = radii
      ? `Covering radius over the number of samples; at ${count(m)} it is ${measure(radii[m - 1]!)}`
      : "No curve";
    this.svg.setAttribute("aria-label", label);
    this.draw();
  }

  private point(event: PointerEvent): void {
    if (!this.radii || !(event.buttons & 1)) return;
    const { low, high, from, to } = this.x;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const part = Math.max(0, Math.min(1, (at - from) / (to - from)));
    this.choose(Math.round(low * (high / low) ** part));
  }

  private draw(): void {
    const { width, height } = this.svg.getBoundingClientRect();
    this.svg.replaceChildren();
    const { radii } = this;
    if (!radii || radii.length < 2 || width < 80 || height < 40) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // Where every point is a sample the radius is 0, which no logarithm shows.
    const least = radii.findLast((radius) => radius > 0) ?? 1e-3;
    this.x = { low: 1, high: radii.length, from: LEFT, to: width - RIGHT };
    const high = Math.max(radii[0]!, least * 1.01);
    const y = { low: least, high, from: height - BOTTOM, to: TOP };
    this.drawTicks(y, width, height);
    const place = (m: number): [number, number] => [
      placeOf(this.x, m),
      placeOf(y, Math.max(radii[m - 1]!, least)),
    ];
    const steps = new Set(
      Array.from({ length: FINENESS + 1 }, (_, i) => Math.round(radii.length ** (i / FINENESS))),
    );
    const line = [...steps].map((m) =>
      place(m)
        .map((at) => at.toFixed(1))
        .join(" "),
    );
    const path = `M${line.join("L")}`;
    const [cx, cy] = place(this.m);
    this.svg.append(
      makeSvg("path", { class: "area", d: `${path}V${y.from}H${LEFT}Z` }),
      makeSvg("path", { class: "line", d: path }),
      makeSvg("path", { class: "cursor", d: `M${cx} ${TOP}V${y.from}` }),
      makeSvg("circle", { class: "cursor", cx, cy, r: 4.5 }),
    );
  }

  private drawTicks(y: Axis, width: number, height: number): void {
    for (const value of ticks(y, Math.max(2, Math.floor(height / 26)))) {
      const at = placeOf(y, value);
      this.svg.append(
        makeSvg("path", { class: "grid", d: `M${LEFT} ${at}H${width - RIGHT}` }),
        makeSvg("text", { x: LEFT - 8, y: at + 3.5, "text-anchor": "end" }, shortest(value)),
      );
    }
    for (const value of ticks(this.x, Math.max(2, Math.floor(width / 90)))) {
      const at = placeOf(this.x, value);
      const anchor = at > width - 28 ? "end" : "middle";
      this.svg.append(
        makeSvg("text", { x: at, y: height - 5, "text-anchor": anchor }, shortest(value)),
      );
    }
  }
}

function placeOf({ low, high, from, to }: Axis, value: number): number {
  return from + (Math.log(value / low) / Math.log(high / low)) * (to - from);
}

/** Powers of ten on an axis, about so many; both ends where there are none. */
function ticks({ low, high }: Axis, about: number): number[] {
  const every = Math.max(1, Math.ceil(Math.log10(high / low) / about));
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.001; power += every)
    found.push(10 ** power);
  return found.length > 1 ? found : [low, high];
}

function shortest(value: number): string {
  const text = value >= 1000 ? `${Number((value / 1000).toPrecision(3))}k` : measure(value);
  return text.replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");
}
