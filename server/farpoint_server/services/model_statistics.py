"""Counts and times of the requests to each model since the server started, as Triton reports them.

Every way to a model counts: Sample, SampleStream, SampleLarge, Encode and Open Inference.
"""

import time
from collections import Counter, defaultdict
from typing import Any, TypeAlias

from farpoint_server.engine.types import Outcome

Times: TypeAlias = tuple[int, int, int]
"""In nanoseconds of time.monotonic_ns."""
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


class ModelStatistics:
    """The statistics of all models. Belongs to the event loop."""

    def __init__(self) -> None:
        self._models: dict[str, Statistics] = {}

    def of(self, model: str) -> Statistics:
        """Those of one model, which go on counting."""
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = Statistics()
        return found

    def forget(self, model: str) -> None:
        """Begins anew with a model."""
        self._models.pop(model, None)

    def succeed(self, model: str, clouds: int, outcome: Outcome[Any], times: Times) -> None:
        """Counts a request that has its answer.

        Args:
            model: Its name.
            clouds: Of the request.
            outcome: Of its work.
            times: When it began to be decoded, was decoded, and was computed.
        """
        statistics, ended = self.of(model), time.monotonic_ns()
        begun, decoded, computed = times
        compute_ns = int(outcome.compute_ms * 1e6)
        statistics.last_ms = time.time_ns() // 1_000_000
        statistics.inferences += clouds
        for phase, ns in (
            ("success", ended - begun),
            ("queue", int(outcome.queue_ms * 1e6)),
            ("compute_input", decoded - begun),
            ("compute_infer", compute_ns),
            ("compute_output", ended - computed),
        ):
            statistics.count[phase] += 1
            statistics.ns[phase] += ns
        if outcome.batch_requests:
            statistics.executions += 1
            batch = statistics.batches[outcome.batch_requests]
            batch[0] += 1
            batch[1] += compute_ns

    def fail(self, model: str, begun: int) -> None:
        """Counts a request that has no answer, and began then."""
        statistics = self.of(model)
        statistics.last_ms = time.time_ns() // 1_000_000
        statistics.count["fail"] += 1
        statistics.ns["fail"] += time.monotonic_ns() - begun
