// How many points are drawn while the view moves: as many as frames stay short with.

const SLOW_MS = 40;
const QUICK_MS = 22;
const LEAST = 20_000;
const REST_MS = 160;

export class Detail {
  private budget = 120_000;
  private took = 0;
  private timer = 0;

  /** @param rested called once the view has come to rest, for a picture of every point. */
  constructor(private readonly rested: () => void) {}

  /** The view moves now. */
  move(): void {
    clearTimeout(this.timer);
    // Where frames are slow so are the moves; a rest between two of them would draw every point.
    const rest = Math.max(REST_MS, 2 * Math.min(this.took, 1000));
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.rested();
    }, rest);
  }

  private get moving(): boolean {
    return this.timer !== 0;
  }

  /** Points to draw of `count` in this frame. */
  of(count: number): number {
    return this.moving ? Math.min(count, this.budget) : count;
  }

  /** Learns from a frame: milliseconds until the next one could begin, with `count` points. */
  frame(took: number, count: number): void {
    this.took = took;
    const drawn = this.of(count);
    if (took > SLOW_MS) this.budget = Math.max(LEAST, drawn * Math.max(0.4, SLOW_MS / took));
    else if (took < QUICK_MS && this.moving) this.budget = Math.max(this.budget, drawn * 1.15);
  }
}
