// The settings of the page, all of which are part of a link to it.

import { Signal } from "../base/signal";
import type { Method } from "../rpc/sampling";
import type { Coloring } from "../view/paint";

export const STREET = "street";

export const settings = {
  /** The example scan, or the name of a file. */
  cloud: new Signal(STREET),
  method: new Signal<Method>("farthest"),
  /** Shown in the place of the cloud. */
  compare: new Signal<Method | "none">("none"),
  m: new Signal(4096),
  start: new Signal(0),
  /** 0 until a cloud gives a length that suits it; so is `voxel`. */
  radius: new Signal(0),
  voxel: new Signal(0),
  seed: new Signal(0),
  nonfinite: new Signal<"ignore" | "reject">("ignore"),
  color: new Signal<Coloring>("height"),
  layout: new Signal<"beside" | "over">("beside"),
  size: new Signal(1.5),
  /** The view of the camera (Orbit.view); empty for the first view. */
  camera: new Signal(""),
};

const METHODS = ["farthest", "poisson", "voxel", "random"];
const CHOICES: Record<string, readonly string[]> = {
  method: METHODS,
  compare: ["none", ...METHODS],
  nonfinite: ["ignore", "reject"],
  color: ["height", "intensity", "rgb", "distance"],
  layout: ["beside", "over"],
};

type Any = Signal<string | number>;
const all = Object.entries(settings) as unknown as [string, Any][];
const defaults = new Map(all.map(([name, signal]) => [name, signal.value]));

/** The fragment of the address: settings that differ from their defaults. */
export function toFragment(): string {
  const changed = all.filter(([name, signal]) => signal.value !== defaults.get(name));
  return new URLSearchParams(
    changed.map(([name, signal]) => [name, String(signal.value)]),
  ).toString();
}

/** Takes settings from a fragment and ignores values that no setting has. */
export function fromFragment(fragment: string): void {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const [name, signal] of all) {
    const value = given.get(name);
    if (value === null) continue;
    if (typeof signal.value === "number") {
      const number = Number(value);
      if (value !== "" && Number.isFinite(number) && number >= 0) signal.set(number);
    } else if (CHOICES[name]?.includes(value) ?? true) {
      signal.set(value);
    }
  }
}

/** Keeps the address at the settings, without entries in the history. */
export function keepAddress(): void {
  let timer = 0;
  const write = (): void => {
    clearTimeout(timer);
    // Browsers refuse more than some hundred replacements in half a minute.
    timer = window.setTimeout(() => history.replaceState(null, "", `#${toFragment()}`), 250);
  };
  for (const [, signal] of all) signal.onChange(write);
}
