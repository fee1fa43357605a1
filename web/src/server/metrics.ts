// The text of /metrics: parsed, summed, and quantiles of its histograms.

export interface Metric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One reading of /metrics. */
export class Reading {
  private readonly byName = new Map<string, Metric[]>();

  constructor(
    /** Seconds, of the page's own clock. */
    readonly at: number,
    text: string,
  ) {
    for (const line of text.split("\n")) {
      const metric = parseLine(line);
      if (!metric) continue;
      const same = this.byName.get(metric.name);
      if (same) same.push(metric);
      else this.byName.set(metric.name, [metric]);
    }
  }

  all(name: string): readonly Metric[] {
    return this.byName.get(name) ?? [];
  }

  /** The sum over all label sets that have the given labels; 0 where there is none. */
  sum(name: string, labels: Record<string, string> = {}): number {
    const wanted = Object.entries(labels);
    return this.all(name)
      .filter((metric) => wanted.every(([key, value]) => metric.labels[key] === value))
      .reduce((total, { value }) => total + value, 0);
  }

  /** Cumulative counts of a histogram by upper bound, over all label sets that match. */
  buckets(name: string, labels: Record<string, string>): Map<number, number> {
    const wanted = Object.entries(labels);
    const found = new Map<number, number>();
    for (const metric of this.all(`${name}_bucket`)) {
      if (!wanted.every(([key, value]) => metric.labels[key] === value)) continue;
      const bound = metric.labels.le === "+Inf" ? Infinity : Number(metric.labels.le);
      found.set(bound, (found.get(bound) ?? 0) + metric.value);
    }
    return found;
  }
}

function parseLine(line: string): Metric | undefined {
  const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
  if (!match) return undefined;
  const labels: Record<string, string> = {};
  for (const [, key, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
    labels[key!] = value!.replace(/\\(.)/g, "$1");
  const value = match[3] === "+Inf" ? Infinity : Number(match[3]);
  return { name: match[1]!, labels, value };
}

/** The value below which `part` of what came between two readings lies; NaN where nothing came. */
export function quantile(
  before: Map<number, number>,
  after: Map<number, number>,
  part: number,
): number {
  const bounds = [...after.keys()].sort((a, b) => a - b);
  const grown = bounds.map((bound) => after.get(bound)! - (before.get(bound) ?? 0));
  const total = grown.at(-1) ?? 0;
  if (total <= 0) return NaN;
  const at = grown.findIndex((value) => value >= part * total);
  const [low, high] = [at ? bounds[at - 1]! : 0, bounds[at]!];
  if (high === Infinity) return low;
  const below = at ? grown[at - 1]! : 0;
  return low + ((high - low) * (part * total - below)) / Math.max(1e-9, grown[at]! - below);
}
