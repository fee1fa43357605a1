// How many points are drawn while the view moves, so that frames stay short.

const SLOW_MS = 40;
const QUICK_MS = 22;
const MIN_POINTS = 20_000;
const REST_MS = 160;

export class Detail {
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
