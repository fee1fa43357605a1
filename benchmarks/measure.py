"""Interleaved medians: every contender runs once a round, so that all meet the same machine."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


def seconds_of(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def interleaved(contenders: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds of each contender over `rounds`, after one round of warming up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name, call in contenders.items():
            seconds = seconds_of(call)
            if i > 0:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def rounds_for(slowest_seconds: float, budget_seconds: float = 2.0) -> int:
    """An odd number of rounds, 3 to 31, that keeps the slowest contender near the budget."""
    wanted = int(budget_seconds / max(slowest_seconds, 1e-6))
    return min(31, max(3, wanted)) | 1
