// A line chart in SVG: axes with few ticks, lines, an area, a cursor, marks.

import { makeSvg } from "./dom";

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly logarithmic: boolean;
}

export interface Line {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
  /** Class of the path; "area" is filled to the bottom. */
  readonly kind: string;
}

export interface ChartContent {
  readonly x: Scale;
  readonly y: Scale;
  readonly lines: readonly Line[];
  /** A vertical line and a dot on the first line. */
  readonly cursor?: { readonly x: number; readonly y: number };
  readonly marks?: readonly { readonly x: number; readonly title: string }[];
  readonly formatX: (value: number) => string;
  readonly formatY: (value: number) => string;
}

const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 10;

export class Chart {
  private readonly svg = makeSvg("svg", { class: "chart", role: "img" });
  private content: ChartContent | undefined;

  constructor(host: HTMLElement, label: string) {
    this.svg.setAttribute("aria-label", label);
    host.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(host);
  }

  /** Value of x below a place on the screen. */
  onPoint(use: (x: number) => void): void {
    const at = (event: PointerEvent): void => {
      if (!this.content || !(event.buttons & 1)) return;
      const box = this.svg.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      use(valueAt(this.content.x, Math.max(0, Math.min(1, part))));
    };
    this.svg.classList.add("pointed");
    this.svg.addEventListener("pointerdown", (event) => {
      this.svg.setPointerCapture(event.pointerId);
      at(event);
    });
    this.svg.addEventListener("pointermove", at);
  }

  show(content: ChartContent | undefined, label: string): void {
    this.content = content;
    this.svg.setAttribute("aria-label", label);
    this.draw();
  }

  private draw(): void {
    const { width, height } = this.svg.getBoundingClientRect();
    this.svg.replaceChildren();
    if (!this.content || width < 80 || height < 40) return;
    const { x, y, lines, cursor, marks = [] } = this.content;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const across = (value: number): number => LEFT + partOf(x, value) * (width - LEFT - RIGHT);
    const down = (value: number): number =>
      height - BOTTOM - partOf(y, value) * (height - BOTTOM - TOP);
    this.axes(width, height, across, down);
    for (const { x: at, title } of marks) {
      const mark = makeSvg("g", { class: "mark" }, makeSvg("title", {}, title));
      mark.append(
        makeSvg("line", { x1: across(at), x2: across(at), y1: TOP, y2: height - BOTTOM }),
      );
      mark.append(makeSvg("circle", { cx: across(at), cy: TOP + 2, r: 3 }));
      this.svg.append(mark);
    }
    for (const line of lines) this.svg.append(path(line, across, down, height - BOTTOM));
    if (!cursor) return;
    this.svg.append(
      makeSvg("line", {
        class: "cursor",
        x1: across(cursor.x),
        x2: across(cursor.x),
        y1: TOP,
        y2: height - BOTTOM,
      }),
    );
    this.svg.append(
      makeSvg("circle", { class: "cursor", cx: across(cursor.x), cy: down(cursor.y), r: 4.5 }),
    );
  }

  private axes(
    width: number,
    height: number,
    across: (x: number) => number,
    down: (y: number) => number,
  ): void {
    const { x, y, formatX, formatY } = this.content!;
    for (const value of ticks(y, Math.max(2, Math.floor(height / 26)))) {
      this.svg.append(
        makeSvg("line", {
          class: "grid",
          x1: LEFT,
          x2: width - RIGHT,
          y1: down(value),
          y2: down(value),
        }),
      );
      this.svg.append(
        makeSvg(
          "text",
          { x: LEFT - 8, y: down(value) + 3.5, "text-anchor": "end" },
          formatY(value),
        ),
      );
    }
    const wanted = ticks(x, Math.max(2, Math.floor(width / 90)));
    for (const value of wanted) {
      const end = across(value) > width - 28;
      this.svg.append(
        makeSvg(
          "text",
          { x: across(value), y: height - 5, "text-anchor": end ? "end" : "middle" },
          formatX(value),
        ),
      );
    }
  }
}

function partOf({ low, high, logarithmic }: Scale, value: number): number {
  if (high <= low) return 0.5;
  const part = logarithmic
    ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value - low) / (high - low);
  return Math.max(0, Math.min(1, part));
}

function valueAt({ low, high, logarithmic }: Scale, part: number): number {
  return logarithmic ? low * (high / low) ** part : low + (high - low) * part;
}

/** Round values within a scale, about so many. */
function ticks(scale: Scale, about: number): number[] {
  const { low, high, logarithmic } = scale;
  if (!(high > low)) return [low];
  if (logarithmic) {
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / about));
    const found: number[] = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.001; power += every)
      found.push(10 ** power);
    return found.length > 1
      ? found
      : [low, ...found, high].filter((value, i, all) => !i || value > all[i - 1]! * 1.3);
  }
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const found: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step)
    found.push(value);
  return found;
}

function path(
  line: Line,
  across: (x: number) => number,
  down: (y: number) => number,
  bottom: number,
): SVGPathElement {
  const places: string[] = [];
  for (let i = 0; i < line.x.length; i++)
    places.push(`${across(line.x[i]!).toFixed(1)} ${down(line.y[i]!).toFixed(1)}`);
  let d = places.length ? `M${places.join("L")}` : "";
  if (line.kind.startsWith("area") && places.length) {
    d += `L${across(line.x[line.x.length - 1]!).toFixed(1)} ${bottom}L${across(line.x[0]!).toFixed(1)} ${bottom}Z`;
  }
  return makeSvg("path", { class: `line ${line.kind}`, d });
}
