// Readings of the last five minutes, taken once a second while somebody looks.

import { authorization } from "../rpc/connect";
import { Signal } from "../ui/signal";
import { Reading } from "./metrics";

const EVERY_MS = 1000;
const KEPT_S = 300;

export interface Trim {
  readonly at: number;
  readonly device: string;
  readonly reason: string;
  readonly bytes: number;
}

/** Oldest first; a new array for each reading. */
export const history = new Signal<readonly Reading[]>([]);
export const trims: Trim[] = [];
export const reachable = new Signal(true);

let timer = 0;
let wanted = false;

/** Takes readings as long as the tab is shown. */
export function watch(shown: boolean): void {
  wanted = shown;
  clearTimeout(timer);
  if (wanted) void read();
}

async function read(): Promise<void> {
  if (!document.hidden) {
    try {
      const answer = await fetch("metrics", {
        headers: authorization(),
        signal: AbortSignal.timeout(5000),
      });
      if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
      add(new Reading(performance.now() / 1000, await answer.text()));
      reachable.set(true);
    } catch {
      reachable.set(false);
    }
  }
  if (wanted) timer = window.setTimeout(() => void read(), EVERY_MS);
}

function add(reading: Reading): void {
  const before = history.value.at(-1);
  // Counters begin at 0 with a server: the readings of the one before it do not go on.
  const restarted =
    before &&
    reading.sum("process_start_time_seconds") !== before.sum("process_start_time_seconds");
  if (restarted) trims.length = 0;
  const kept = restarted ? [] : history.value.filter(({ at }) => at > reading.at - KEPT_S);
  if (before && !restarted) noteTrims(before, reading);
  history.set([...kept, reading]);
}

function noteTrims(before: Reading, now: Reading): void {
  for (const { labels, value } of now.all("farpoint_memory_trims_total")) {
    if (value <= before.sum("farpoint_memory_trims_total", labels)) continue;
    const bytes =
      now.sum("farpoint_memory_trim_returned_bytes_total", labels) -
      before.sum("farpoint_memory_trim_returned_bytes_total", labels);
    trims.push({ at: now.at, device: labels.device ?? "", reason: labels.reason ?? "", bytes });
  }
}
