"""The measurements as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from farpoint.cli.bench.load import Kind
from farpoint.cli.bench.search import Goal, Step, sustained

PERCENTILES = (50.0, 90.0, 99.0)


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
