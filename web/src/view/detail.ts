// How many points are drawn while the view moves: as many as frames stay short with.

const SLOW_MS = 40;
const QUICK_MS = 22;
const LEAST = 20_000;
const REST_MS = 160;

export class Detail {
  private budget = 120_000;
  private last = 0;
  private timer = 0;

  /** @param rested called once the view has come to rest, for a picture of every point. */
  constructor(private readonly rested: () => void) {}

  /** The view moves now. */
  move(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.last = 0;
      this.rested();
    }, REST_MS);
  }

  get moving(): boolean {
    return this.timer !== 0;
  }

  /** Points to draw of `count` in this frame. */
  of(count: number): number {
    return this.moving ? Math.min(count, this.budget) : count;
  }

  /** Learns from the time since the frame before; `count` points were drawn in it. */
  frame(now: number, count: number): void {
    const took = now - this.last;
    // After a pause the time says nothing.
    if (this.moving && this.last && took < 1000) {
      if (took > SLOW_MS)
        this.budget = Math.max(LEAST, Math.min(this.budget, count) * Math.max(0.4, SLOW_MS / took));
      else if (took < QUICK_MS) this.budget *= 1.15;
    }
    this.last = this.moving ? now : 0;
  }
}
