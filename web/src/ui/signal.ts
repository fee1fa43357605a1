// A value that others follow.

export class Signal<T> {
  private readonly listeners: ((value: T) => void)[] = [];

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  /** Tells the listeners, unless it is the value that was there. */
  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const listener of this.listeners) listener(value);
  }

  /** Calls at once and after each change. */
  follow(listener: (value: T) => void): void {
    this.listeners.push(listener);
    listener(this.current);
  }

  /** Calls after each change. */
  onChange(listener: (value: T) => void): void {
    this.listeners.push(listener);
  }
}
