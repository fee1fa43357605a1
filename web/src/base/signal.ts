// A value with listeners.

type Listener<T> = (value: T) => void;

export class Signal<T> {
  private readonly listeners: Listener<T>[] = [];

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  /** Calls the listeners if the value differs from the current one. */
  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const listener of this.listeners) listener(value);
  }

  /** Calls the listener now and after each change. */
  follow(listener: Listener<T>): void {
    this.onChange(listener);
    listener(this.current);
  }

  /** Calls the listener after each change. */
  onChange(listener: Listener<T>): void {
    this.listeners.push(listener);
  }
}

/** Calls `update` now and after a change of any of the signals. */
export function followAll(
  signals: readonly { onChange(listener: () => void): void }[],
  update: () => void,
): void {
  for (const signal of signals) signal.onChange(update);
  update();
}
