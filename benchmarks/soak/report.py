"""What a soak found: calls judged by the server's log, load, faults, and growth of the process."""

import statistics
from collections import Counter

from benchmarks.soak.server import SoakServer
from benchmarks.soak.tally import FAILURES, Tally

# What a call was that had no status of the server's, by the status that the server says it had.
UNTOLD = {"DEADLINE_EXCEEDED": "late", "CANCELLED": "late", "RESOURCE_EXHAUSTED": "refused"}


def judge_by_log(tally: Tally, server: SoakServer) -> None:
    """Counts what only the server knows of calls that had no status, or two answers."""
    for kind, request_id in tally.untold:
        statuses = server.ends.get((request_id, -1), [])
        outcome = UNTOLD.get(statuses[0], "lost") if len(statuses) == 1 else "lost"
        tally.end(kind, outcome, detail=f"told no status, and the server says {statuses}")
    for (request_id, index), statuses in server.ends.items():
        for _ in statuses[1:]:
            detail = f"request {index} of call {request_id} ended with {statuses}"
            tally.end("server", "doubled", detail=detail)


def growth(server: SoakServer) -> str:
    """Of the longest life: medians of its second and of its last quarter."""
    held = max((life.held for life in server.lives), key=len)
    if len(held) < 4:
        return "too short to tell"
    quarter = len(held) // 4
    parts = held[quarter : 2 * quarter], held[-quarter:]
    texts = []
    for name, label in (("rss_mb", "RSS MB"), ("descriptors", ""), ("threads", "")):
        first, last = (statistics.median(getattr(h, name) for h in part) for part in parts)
        texts.append(f"{label or name} {first:.0f} -> {last:.0f} ({last - first:+.0f})")
    return f"{', '.join(texts)} over {len(held)} s"


def report(tally: Tally, server: SoakServer, faults: Counter[str], seconds: float) -> str:
    """All that a run has to say."""
    median, p99 = tally.small_ms()
    lines = [
        tally.table(),
        f"load      {seconds:.0f} s, {tally.calls} calls "
        f"({tally.calls / seconds:.0f}/s), {tally.busy_s / seconds:.1f} at a time, "
        f"{tally.points / seconds / 1e6:.2f} M points/s; small: p50 {median:.0f} ms, "
        f"p99 {p99:.0f} ms",
        f"survived  {', '.join(f'{count} {name}' for name, count in faults.items())}",
        f"growth    {growth(server)}",
        ", ".join(f"{outcome} {tally.total(outcome)}" for outcome in FAILURES),
    ]
    return "\n".join([*lines, *tally.details])
