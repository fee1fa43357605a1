"""Counts of a soak: how each call ended, by kind, and the latencies of the small ones."""

import statistics
from array import array
from collections import Counter

# How a call may end. "late" is a deadline of PATIENCE_S that passed while it was waiting, as its
# server says, too. The last three fail a soak.
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
MOST_DETAILS = 20


class Tally:
    """Counts calls as they end.

    Attributes:
        counts: By kind and outcome.
        points: In all clouds that were answered.
        busy_s: Sum of what all calls lasted.
        untold: Kind and id of calls that were not told their status; the server's log has it.
        details: What was wrong with the first few that failed.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.points = 0
        self.busy_s = 0.0
        self.untold: list[tuple[str, str]] = []
        self.details: list[str] = []
        self._small_s = array("f")

    def end(
        self,
        kind: str,
        outcome: str,
        seconds: float = 0.0,
        detail: str = "",
        is_interrupted: bool = False,
    ) -> None:
        """Counts one call, which a fault of its server may have made longer."""
        self.counts[kind, outcome] += 1
        self.busy_s += seconds
        if kind == "small" and outcome == "answered" and not is_interrupted:
            self._small_s.append(seconds)
        if outcome in FAILURES and len(self.details) < MOST_DETAILS:
            self.details.append(f"{kind} {outcome}: {detail}")

    @property
    def calls(self) -> int:
        return self.counts.total()

    def total(self, outcome: str) -> int:
        """Of all kinds."""
        return sum(count for (_, ended), count in self.counts.items() if ended == outcome)

    def small_ms(self) -> tuple[float, float]:
        """Median and 99th percentile of the small calls that were answered."""
        if len(self._small_s) < 2:
            return 0.0, 0.0
        cuts = statistics.quantiles(self._small_s, n=100)
        return 1e3 * cuts[49], 1e3 * cuts[98]

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
