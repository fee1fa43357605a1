"""Counts and times of the requests to each model since the server started, as Triton reports them.

Every way to a model counts: Sample, SampleStream, SampleLarge, Encode and Open Inference.
"""

import time
from collections import Counter, defaultdict
from types import TracebackType
from typing import Any

from farpoint_server.engine.types import Outcome

PHASES = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")


class Statistics:
    """Of one model. Times are in nanoseconds."""

    def __init__(self) -> None:
        self.last_ms = 0
        """When the last request ended, in milliseconds since 1970."""
        self.inferences = 0
        """Clouds of the requests that succeeded."""
        self.executions = 0
        """Batches that they were in."""
        self.count: Counter[str] = Counter()
        """Of each of PHASES, how many requests had it."""
        self.ns: Counter[str] = Counter()
        """Of each of PHASES, all of them together."""
        self.batches: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        """By requests in a batch: how many such batches, and their time in the engine."""

    def add(self, phase: str, ns: int) -> None:
        """Counts a phase of a request."""
        self.count[phase] += 1
        self.ns[phase] += ns


class ModelStatistics:
    """The statistics of all models. Belongs to the event loop."""

    def __init__(self) -> None:
        self._models: dict[str, Statistics] = {}

    def of(self, model: str) -> Statistics:
        """Those of one model, which go on counting."""
        return self._models.setdefault(model, Statistics())

    def forget(self, model: str) -> None:
        """Begins anew with a model."""
        self._models.pop(model, None)

    def measure(self, model: str, clouds: int) -> "Measured":
        """Counts a request that a block works on; one that raises has failed."""
        return Measured(self.of(model), clouds)


class Measured:
    """A block in which one request is worked on. A class costs a third of a generator here."""

    __slots__ = ("_begun", "_clouds", "_computed", "_decoded", "_outcome", "_statistics")

    def __init__(self, statistics: Statistics, clouds: int) -> None:
        self._statistics, self._clouds = statistics, clouds
        self._begun = self._decoded = self._computed = time.monotonic_ns()
        self._outcome: Outcome[Any] | None = None

    def __enter__(self) -> "Measured":
        return self

    def decoded(self) -> None:
        """The arrays of the request are there; it is scheduled now."""
        self._decoded = time.monotonic_ns()

    def computed(self, outcome: Outcome[Any]) -> None:
        """Its answer is there, and is serialized now."""
        self._computed, self._outcome = time.monotonic_ns(), outcome

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ended, statistics, outcome = time.monotonic_ns(), self._statistics, self._outcome
        statistics.last_ms = time.time_ns() // 1_000_000
        if kind is not None or outcome is None:
            statistics.add("fail", ended - self._begun)
            return
        compute_ns = int(outcome.compute_ms * 1e6)
        statistics.add("success", ended - self._begun)
        statistics.add("queue", int(outcome.queue_ms * 1e6))
        statistics.add("compute_input", self._decoded - self._begun)
        statistics.add("compute_infer", compute_ns)
        statistics.add("compute_output", ended - self._computed)
        statistics.inferences += self._clouds
        if outcome.batch_requests:
            statistics.executions += 1
            batch = statistics.batches[outcome.batch_requests]
            batch[0] += 1
            batch[1] += compute_ns
