// What a person chose. Everything here is part of a permalink.

import { Signal } from "./ui/signal";
import type { Renderer } from "./view/painter";

export type Tab = "sample" | "encode" | "server";
export type Coloring = "height" | "intensity" | "rgb" | "distance" | "cell";
export type Features = "features" | "counts" | "mean";

export const settings = {
  tab: new Signal<Tab>("sample"),
  /** "street", or the name of a file, which a link cannot bring back. */
  cloud: new Signal(""),
  m: new Signal(4096),
  start: new Signal(0),
  nonfinite: new Signal<"ignore" | "reject">("ignore"),
  color: new Signal<Coloring>("height"),
  layout: new Signal<"beside" | "over">("beside"),
  size: new Signal(1.5),
  stage: new Signal(0),
  features: new Signal<Features>("features"),
  model: new Signal(""),
  /** Where the cloud is seen from, if not from where it is first seen (OrbitCamera.view). */
  camera: new Signal(""),
  /** What draws; a choice of links alone. */
  renderer: new Signal<Renderer>("auto"),
};

const NUMBERS = new Set<string>(["m", "start", "size", "stage"]);
const CHOICES: Record<string, readonly string[]> = {
  tab: ["sample", "encode", "server"],
  nonfinite: ["ignore", "reject"],
  color: ["height", "intensity", "rgb", "distance", "cell"],
  layout: ["beside", "over"],
  features: ["features", "counts", "mean"],
  renderer: ["auto", "webgl", "cpu"],
};

type Any = Signal<string | number>;
const all = Object.entries(settings) as unknown as [string, Any][];
const defaults = new Map(all.map(([name, signal]) => [name, signal.value]));

/** The fragment of the address: what differs from the defaults. */
export function toFragment(): string {
  const changed = all.filter(([name, signal]) => signal.value !== defaults.get(name));
  return new URLSearchParams(
    changed.map(([name, signal]) => [name, String(signal.value)]),
  ).toString();
}

/** Takes settings from a fragment; what is no setting is left as it is. */
export function fromFragment(fragment: string): void {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const [name, signal] of all) {
    const value = given.get(name);
    if (value === null) continue;
    if (NUMBERS.has(name)) {
      const number = Number(value);
      if (value !== "" && Number.isFinite(number) && number >= 0) signal.set(number);
    } else if (CHOICES[name]?.includes(value) ?? true) {
      signal.set(value);
    }
  }
}

/** Keeps the address at the settings, without an entry in the history for each. */
export function keepAddress(): void {
  let timer = 0;
  const write = (): void => {
    clearTimeout(timer);
    // Browsers refuse more than some hundred replacements in half a minute.
    timer = window.setTimeout(() => history.replaceState(null, "", `#${toFragment()}`), 250);
  };
  for (const [, signal] of all) signal.onChange(write);
}
