// Numbers as text; a space before a unit does not break.

const whole = new Intl.NumberFormat("en-US");

export function count(value: number): string {
  return whole.format(Math.round(value));
}

/** Three significant digits, without an exponent where that is short. */
export function measure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  if (size >= 1000) return count(value);
  return value.toPrecision(3);
}

export function milliseconds(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 1 : 2)}\u00a0s`;
  return `${value >= 100 ? value.toFixed(0) : value.toPrecision(2)}\u00a0ms`;
}

export function megabytes(value: number): string {
  return `${(value / 1e6).toPrecision(3)}\u00a0MB`;
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
