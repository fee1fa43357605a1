"""Results of a soak: how each call ended, faults, and growth of the processes."""

import statistics
from collections import Counter

from benchmarks.soak.server import SoakServer

# How a call may end. "late" is a deadline of PATIENCE_S that passed while it was waiting, as its
# server reports, too. The last three fail a soak.
OUTCOMES = (
    "answered",
    "refused",
    "interrupted",
    "cancelled",
    "expired",
    "rejected",
    "late",
    "lost",
    "doubled",
    "wrong",
)
FAILURES = OUTCOMES[-3:]
MAX_DETAILS = 20


class Tally:
    """Counts calls as they end.

    Attributes:
        counts: By kind and outcome.
        unresolved: Kind and id of calls that ended without the server's status, which its log has.
        details: What was wrong with the first few that failed.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.unresolved: list[tuple[str, str]] = []
        self.details: list[str] = []

    def end(self, kind: str, outcome: str, detail: str = "") -> None:
        """Counts one call."""
        self.counts[kind, outcome] += 1
        if outcome in FAILURES and len(self.details) < MAX_DETAILS:
            self.details.append(f"{kind} {outcome}: {detail}")

    @property
    def calls(self) -> int:
        return self.counts.total()

    def total(self, outcome: str) -> int:
        """Of all kinds."""
        return sum(count for (_, ended), count in self.counts.items() if ended == outcome)

    def table(self) -> str:
        """A line for each kind, a column for each outcome."""
        kinds = sorted({kind for kind, _ in self.counts})
        rows = [["", *OUTCOMES]]
        rows += [[kind, *(str(self.counts[kind, o]) for o in OUTCOMES)] for kind in kinds]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        )


# Outcome of a call that ended without a status, by the status in the server's log.
BY_LOG = {"DEADLINE_EXCEEDED": "late", "CANCELLED": "late", "RESOURCE_EXHAUSTED": "refused"}


def judge_by_log(tally: Tally, server: SoakServer) -> None:
    """Counts what only the server knows of calls that had no status, or two answers."""
    for kind, request_id in tally.unresolved:
        statuses = server.ends.get((request_id, -1), [])
        outcome = BY_LOG.get(statuses[0], "lost") if len(statuses) == 1 else "lost"
        tally.end(kind, outcome, detail=f"no status, and the server's log has {statuses}")
    for (request_id, index), statuses in server.ends.items():
        for _ in statuses[1:]:
            detail = f"request {index} of call {request_id} ended with {statuses}"
            tally.end("server", "doubled", detail=detail)


def growth(server: SoakServer) -> str:
    """Of the longest life: medians of its second and of its last quarter."""
    held = max((life.held for life in server.lives), key=len)
    if len(held) < 4:
        return "too short"
    quarter = len(held) // 4
    parts = held[quarter : 2 * quarter], held[-quarter:]
    texts = []
    for name, label in (("rss_mb", "RSS MB"), ("descriptors", ""), ("threads", "")):
        first, last = (statistics.median(getattr(h, name) for h in part) for part in parts)
        texts.append(f"{label or name} {first:.0f} -> {last:.0f} ({last - first:+.0f})")
    return f"{', '.join(texts)} over {len(held)} s"


def latencies(server: SoakServer) -> str:
    """Percentiles of Sample calls in the server's log, those that met a fault too."""
    if len(server.sample_ms) < 2:
        return "too few"
    percentiles = statistics.quantiles(server.sample_ms, n=100)
    return f"p50 {percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms in the server"


def report(tally: Tally, server: SoakServer, faults: Counter[str], seconds: float) -> str:
    """All results of a run."""
    lines = [
        tally.table(),
        f"load      {seconds:.0f} s, {tally.calls} calls ({tally.calls / seconds:.0f}/s)",
        f"survived  {', '.join(f'{count} {name}' for name, count in faults.items())}",
        f"growth    {growth(server)}",
        f"latency   {latencies(server)}",
        ", ".join(f"{outcome} {tally.total(outcome)}" for outcome in FAILURES),
    ]
    return "\n".join([*lines, *tally.details])
