"""Interleaved timing: in each round every contender runs once, and medians are over the rounds.

So all meet the same machine. A turn is one call, or as many as fill TURN_SECONDS: a lone short call
right after another package's would mostly measure how long caches and branch predictors take to
come back.
"""

import statistics
import time
from collections.abc import Callable, Mapping
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


def interleaved(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds of each contender over `rounds`."""
    contenders = {name: Contender(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name].append(contender.turn())
    return {name: statistics.median(values) for name, values in times.items()}


def rounds_for(slowest_seconds: float, budget_seconds: float = 2.0) -> int:
    """An odd number of rounds, 3 to 31, that keeps the slowest contender near the budget."""
    wanted = int(budget_seconds / max(slowest_seconds, 1e-6))
    return min(31, max(3, wanted)) | 1


def interleaved_by_cost(calls: Mapping[str, Call], budget_seconds: float = 2.0) -> dict[str, float]:
    """Median seconds of each contender, where a slow one sits out some of the rounds.

    Each has as many turns as `rounds_for` allows its duration, spread evenly over the rounds of the
    quickest.
    """
    contenders = {name: Contender(call) for name, call in calls.items()}
    rounds = {name: rounds_for(c.seconds, budget_seconds) for name, c in contenders.items()}
    most = max(rounds.values())
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(most):
        for name, contender in contenders.items():
            if (i + 1) * rounds[name] // most > i * rounds[name] // most:
                times[name].append(contender.turn())
    return {name: statistics.median(values) for name, values in times.items()}
