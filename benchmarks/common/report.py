"""Interleaved timing, and results: the machine, optional packages, tables, one JSON file each.

In each round every contender runs once, and medians are over the rounds, so all meet the same
machine. A turn is one call, or as many as fill TURN_SECONDS: a lone short call right after another
package's would mostly measure how long caches and branch predictors take to come back. Memory is
measured in a process of its own; Linux only.
"""

import importlib
import json
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
Row = dict[str, Any]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe(*packages: str) -> dict[str, Any]:
    """Processor, Python, date and the versions of the packages that are installed."""
    versions = {name: version for name in packages if (version := _version(name))}
    return {
        "processor": _processor(),
        "python": sys.version.split()[0],
        "date": date.today().isoformat(),
        "versions": versions,
    }


def heading(machine: Row) -> str:
    """One line for the top of a table."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['processor']}; Python {machine['python']}; {machine['date']}; {versions}."


@cache
def _load(name: str) -> ModuleType | str:
    try:
        return importlib.import_module(name)
    except Exception as error:  # packages built for another torch raise errors of all kinds
        return (str(error).strip() or type(error).__name__).splitlines()[0]


def module(name: str) -> Any | None:
    """An optional module, or None where it is not installed or does not load here."""
    loaded = _load(name)
    return None if isinstance(loaded, str) else loaded


def missing(names: Iterable[str]) -> dict[str, str]:
    """Those of the modules that do not load, and why."""
    return {name: why for name in names if isinstance(why := _load(name), str)}


def shown(row: Row) -> Row:
    """The row, printed as soon as it is there."""
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def grouped(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; floats have three digits."""
    cells = [[number(c) if isinstance(c, float) else str(c) for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


def write(name: str, report: Row) -> None:
    """Writes the report as `name`.json."""
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")


Call = Callable[[], Any]
TURN_SECONDS = 1e-2


def seconds_of(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class Contender:
    """A call that is warm, and how often it is made in a turn."""

    def __init__(self, call: Call) -> None:
        call()
        self.seconds = seconds_of(call)
        self._call = call
        self._calls = max(1, round(TURN_SECONDS / max(self.seconds, 1e-7)))

    def turn(self) -> float:
        """Seconds of a call."""
        begin = time.perf_counter()
        for _ in range(self._calls):
            self._call()
        return (time.perf_counter() - begin) / self._calls


def interleaved(
    calls: Mapping[str, Call], budget_seconds: float = 2.0, rounds: int | None = None
) -> dict[str, float]:
    """Median milliseconds of each contender over `rounds`.

    Without `rounds` each has an odd number of turns, 3 to 31, that keeps it near the budget, spread
    evenly over the rounds of the quickest.
    """
    contenders = {name: Contender(call) for name, call in calls.items()}
    turns = {
        name: rounds or min(31, max(3, int(budget_seconds / max(c.seconds, 1e-6)))) | 1
        for name, c in contenders.items()
    }
    most = max(turns.values())
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(most):
        for name, contender in contenders.items():
            if (i + 1) * turns[name] // most > i * turns[name] // most:
                times[name].append(contender.turn())
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result in a new interpreter."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _resident_bytes(field: str) -> int:
    """VmRSS is the memory of this process, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def peak_growth(call: Call) -> int:
    """Bytes by which the call raises the resident size of this process at its peak."""
    before = _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return _resident_bytes("VmHWM") - before
