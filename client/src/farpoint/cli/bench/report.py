"""Rising rates until the latency target is missed, and the report about them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from farpoint.cli.bench.load import Kind, Measured

# Between rates while the target is kept; a step that missed it is halved into the last one.
FACTOR = 1.5
REFINEMENTS = 3
# A generator that is later than this share of the target measures itself.
_MAX_LATE = 0.25
PERCENTILES = (50.0, 90.0, 99.0)


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
    """Steps at rising rates until the target is missed, and some between."""
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


def show(steps: Sequence[Step], goal: Goal) -> None:
    """Prints a table, a row for each rate, and the rate that was sustained."""
    table = Table("offered/s", "answered/s", *(f"p{p:g} ms" for p in PERCENTILES), "failed", "")
    for column in table.columns[:-1]:
        column.justify = "right"
    for step in sorted(steps, key=lambda step: step.offered_per_s):
        measured = step.measured
        latencies = [f"{measured.percentile_ms(p):.3g}" for p in PERCENTILES]
        outcome = "kept" if step.is_kept else "missed"
        if step.is_late:
            outcome += ", generator late"
        rates = f"{step.offered_per_s:.1f}", f"{measured.answered_per_s:.1f}"
        table.add_row(*rates, *latencies, str(len(measured.errors)), outcome)
    Console().print(table)
    print(_verdict(list(steps), goal))


def as_dict(
    target: str, kinds: Sequence[Kind], steps: Sequence[Step], goal: Goal
) -> dict[str, Any]:
    """The values of `--json`; a latency is null where calls failed."""
    best = sustained(list(steps))
    return {
        "server": target,
        "kinds": [asdict(kind) for kind in kinds],
        "goal": asdict(goal),
        "sustained_per_s": None if best is None else best.offered_per_s,
        "steps": [_row(step) for step in steps],
    }


def _row(step: Step) -> dict[str, Any]:
    measured = step.measured
    latencies = {f"p{p:g}_ms": _finite(measured.percentile_ms(p)) for p in PERCENTILES}
    return {
        "offered_per_s": step.offered_per_s,
        "answered_per_s": measured.answered_per_s,
        **latencies,
        "errors": {name: measured.errors.count(name) for name in sorted(set(measured.errors))},
        "generator_late_p99_ms": measured.late_percentile_ms(99),
        "kept": step.is_kept,
    }


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value


def _verdict(steps: list[Step], goal: Goal) -> str:
    best = sustained(steps)
    wanted = f"p{goal.percent:g} <= {goal.latency_ms:g} ms"
    if best is None:
        return f"sustains none of these rates at {wanted}"
    verdict = f"sustains {best.offered_per_s:.1f} calls a second at {wanted}"
    if not any(step.is_late and not step.is_kept for step in steps):
        return verdict
    return f"{verdict}, or more: this generator was late, --processes starts several"
