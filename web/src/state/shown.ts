// The samples that are shown: how many of them, their covering radius.

import { followAll, Signal } from "../base/signal";
import { Assigner } from "../nearest/assigner";
import type { Nearest } from "../nearest/nearest.worker";
import { isPrefixed, type Sample } from "../rpc/sampling";
import { compared, sampled, scene } from "./session";
import { settings } from "./settings";

export interface Shown {
  readonly sample: Sample;
  /** The rows that are shown, in order of choice. */
  readonly rows: Int32Array;
}

/** A sample as it is shown, with facts that are computed in the background. */
export class Side {
  readonly shown = new Signal<Shown | undefined>(undefined);
  /** Undefined until it is known. */
  readonly radius = new Signal<number | undefined>(undefined);
  readonly nearest = new Signal<Nearest | undefined>(undefined);
  private assigner: Assigner | undefined;
  private asked: Shown | undefined;

  constructor(answer: Signal<Sample | undefined>) {
    followAll([scene, answer, settings.m], () => this.show(answer.value));
  }

  private show(sample: Sample | undefined): void {
    const before = this.shown.value;
    if (!scene.value || !sample) {
      this.nearest.set(undefined);
      this.radius.set(undefined);
      return this.shown.set(undefined);
    }
    const { indices, radii } = sample;
    const count = isPrefixed(sample.request.method)
      ? Math.min(settings.m.value, indices.length)
      : indices.length;
    if (before?.sample === sample && before.rows.length === count) return;
    this.nearest.set(undefined);
    this.radius.set(radii?.[count - 1]);
    this.shown.set({ sample, rows: indices.subarray(0, count) });
    if (!radii) this.findNearest();
  }

  /** Sets `nearest` in the background. */
  findNearest(): void {
    const [current, now] = [scene.value, this.shown.value];
    if (!current || !now || this.nearest.value || this.asked === now) return;
    this.asked = now;
    const { measured, finite, radius } = current.framed;
    const guess = this.radius.value ?? (2 * radius) / Math.sqrt(now.rows.length);
    const question = { positions: measured, wanted: finite, order: now.rows.slice(), guess };
    this.assigner ??= new Assigner();
    this.assigner.ask(question, (found) => {
      if (this.shown.value !== now) return;
      this.radius.set(found.radius);
      this.nearest.set(found);
    });
  }
}

export const right = new Side(sampled);
export const left = new Side(compared);
