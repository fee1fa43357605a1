"""The measurements as a table, as JSON and as a plot."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from farpoint.cli.bench.mix import Kind
from farpoint.cli.bench.search import Goal, Step, sustained
from farpoint.io.files import naming, replacing, require

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


def plot(path: Path, steps: Sequence[Step], goal: Goal) -> None:
    """Latency over rate, as a picture of the kind that the suffix names (.svg, .png).

    Raises:
        CloudFileError: it cannot be written, or matplotlib is not there.
    """
    with naming(path):
        figures = require("matplotlib.figure", "a plot", "picture")
    figure = figures.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    rows = sorted(steps, key=lambda step: step.offered_per_s)
    for percent in PERCENTILES:
        latencies = [row.measured.percentile_ms(percent) for row in rows]
        rates = [row.offered_per_s for row in rows]
        axes.plot(rates, latencies, marker="o", label=f"p{percent:g}")
    axes.axhline(goal.latency_ms, linestyle="--", color="gray", label="target")
    axes.set(xlabel="calls offered a second", ylabel="ms from due to answer", yscale="log")
    axes.legend()
    with naming(path), replacing(path) as partial:
        figure.savefig(partial, format=path.suffix[1:])


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
