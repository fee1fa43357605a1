"""Rising rates until the latency target is missed, then closer to where that was."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farpoint.cli.bench.load import Measured

# Between rates while the target is kept; a step that missed it is halved into the last one.
FACTOR = 1.5
REFINEMENTS = 3
# A generator that is later than this share of the target measures itself.
_MAX_LATE = 0.25


@dataclass(frozen=True)
class Goal:
    """A latency that as many percent of the calls must keep; one that fails does not."""

    latency_ms: float
    percent: float


@dataclass(frozen=True)
class Step:
    """One rate, and how it went."""

    offered_per_s: float
    measured: Measured
    goal: Goal

    @property
    def is_kept(self) -> bool:
        """Whether the target was."""
        return self.measured.percentile_ms(self.goal.percent) <= self.goal.latency_ms

    @property
    def is_late(self) -> bool:
        """Whether the generator could not keep up, so that the step says little of the server."""
        late_ms = self.measured.late_percentile_ms(self.goal.percent)
        return late_ms > _MAX_LATE * self.goal.latency_ms


def rise(run: Callable[[float], Measured], first: float, goal: Goal) -> Iterator[Step]:
    """Steps at rising rates until the target is missed, and some between.

    Args:
        run: offers a rate, in calls a second.
        first: the lowest rate.
        goal: what is to be kept.
    """
    kept, missed, rate = 0.0, 0.0, first
    while not missed:
        step = Step(rate, run(rate), goal)
        yield step
        if step.is_late and not step.is_kept:
            return
        kept, missed, rate = (rate, 0.0, rate * FACTOR) if step.is_kept else (kept, rate, 0.0)
    for _ in range(REFINEMENTS):
        rate = (kept + missed) / 2
        step = Step(rate, run(rate), goal)
        yield step
        if step.is_late and not step.is_kept:
            return
        kept, missed = (rate, missed) if step.is_kept else (kept, rate)


def sustained(steps: list[Step]) -> Step | None:
    """The highest rate below which no step missed the target; None if the first one did."""
    missed = min((s.offered_per_s for s in steps if not s.is_kept), default=float("inf"))
    kept = [s for s in steps if s.is_kept and s.offered_per_s < missed]
    return max(kept, key=lambda s: s.offered_per_s, default=None)
