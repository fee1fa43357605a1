"""Interleaved timing: in each round every contender runs once, and medians are over the rounds.

So all meet the same machine. A turn is one call, or as many as fill TURN_SECONDS: a lone short call
right after another package's would mostly measure how long caches and branch predictors take to
come back. Memory is measured in a process of its own; Linux only.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

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
