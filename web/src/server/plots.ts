// The plots of the server's tab, over the last five minutes.

import { Chart, type Line } from "../ui/chart";
import { make } from "../ui/dom";
import { bytes, count, measure } from "../ui/format";
import { history, trims } from "./history";
import type { Reading } from "./metrics";

abstract class Plot {
  private readonly chart: Chart;

  constructor(
    host: HTMLElement,
    private readonly title: string,
    keys: readonly (readonly [string, string])[],
  ) {
    const names = keys.map(([kind, name]) => make("span", { class: `key ${kind}` }, name));
    const plot = make("div", { class: "plot" });
    host.append(
      make(
        "div",
        { class: "card" },
        make(
          "div",
          { class: "split" },
          make("h2", {}, title),
          make("p", { class: "keys" }, ...names),
        ),
        plot,
      ),
    );
    this.chart = new Chart(plot, `${title}: no values yet`);
  }

  protected abstract lines(readings: readonly Reading[]): Line[];
  protected abstract format(value: number): string;
  protected marks(): readonly { x: number; title: string }[] {
    return [];
  }

  show(): void {
    const readings = history.value;
    const last = readings.at(-1);
    if (!last || readings.length < 2) return;
    const lines = this.lines(readings);
    const highest = Math.max(...lines.map(({ y }) => Math.max(0, ...Array.from(y))));
    // Seconds before now, so that the ticks are round.
    const from = Math.min(readings[0]!.at - last.at, -60);
    const since = (values: ArrayLike<number>): number[] => Array.from(values, (at) => at - last.at);
    this.chart.show(
      {
        x: { low: from, high: 0, logarithmic: false },
        y: { low: 0, high: highest > 0 ? highest * 1.15 : 1, logarithmic: false },
        lines: lines.map((each) => ({ ...each, x: since(each.x) })),
        marks: this.marks()
          .map((mark) => ({ ...mark, x: mark.x - last.at }))
          .filter(({ x }) => x >= from),
        formatX: (value) => (value > -1 ? "now" : `−${count(-value)} s`),
        formatY: (value) => this.format(value),
      },
      `${this.title}: ${lines.map(({ y }) => this.format(y[y.length - 1] ?? 0)).join(", ")} now`,
    );
  }
}

const line = (
  readings: readonly Reading[],
  kind: string,
  of: (reading: Reading) => number,
): Line => ({
  x: readings.map(({ at }) => at),
  y: readings.map(of),
  kind,
});

export class RatePlot extends Plot {
  constructor(host: HTMLElement) {
    super(host, "Calls a second", [
      ["accent", "answered"],
      ["warm", "refused"],
    ]);
  }

  protected lines(readings: readonly Reading[]): Line[] {
    const rate = (name: string, kind: string): Line => ({
      x: readings.slice(1).map(({ at }) => at),
      y: readings
        .slice(1)
        .map(
          (now, i) =>
            Math.max(0, now.sum(name) - readings[i]!.sum(name)) / (now.at - readings[i]!.at),
        ),
      kind,
    });
    return [rate("farpoint_rpcs_total", "accent"), rate("farpoint_refusals_total", "warm")];
  }

  protected format(value: number): string {
    return measure(value);
  }
}

export class QueuePlot extends Plot {
  constructor(host: HTMLElement) {
    super(host, "Queue", [
      ["accent", "waiting"],
      ["soft", "in flight"],
    ]);
  }

  protected lines(readings: readonly Reading[]): Line[] {
    return [
      line(readings, "soft", (reading) => reading.sum("farpoint_calls")),
      line(readings, "accent", (reading) => reading.sum("farpoint_queue_requests")),
    ];
  }

  protected format(value: number): string {
    return Number.isInteger(value) ? count(value) : value.toFixed(1);
  }
}

export class MemoryPlot extends Plot {
  constructor(host: HTMLElement) {
    super(host, "Memory", [
      ["accent", "allocated"],
      ["soft", "reserved"],
      ["dot", "trim"],
    ]);
  }

  protected lines(readings: readonly Reading[]): Line[] {
    const reserved = line(readings, "soft", (reading) =>
      reading.sum("farpoint_memory_reserved_bytes"),
    );
    const allocated = line(readings, "accent", (reading) =>
      reading.sum("farpoint_memory_allocated_bytes"),
    );
    return [{ ...reserved, kind: "area" }, reserved, allocated];
  }

  protected override marks(): readonly { x: number; title: string }[] {
    return trims.map(({ at, device, reason, bytes: size }) => ({
      x: at,
      title: `Trim of ${device}, ${reason}: ${bytes(size)} given back`,
    }));
  }

  protected format(value: number): string {
    return bytes(value);
  }
}
