"""Counts and times of the requests to each model since the server started, as Triton reports them.

Every way to a model counts: Sample, SampleStream, SampleLarge, Encode and Open Inference.
"""

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from farpoint_server.engine.types import Outcome

Times: TypeAlias = tuple[int, int, int]
"""In nanoseconds of time.monotonic_ns."""


class Statistics:
    """Of one model. Times are in nanoseconds."""

    __slots__ = (
        *("last_ms", "successes", "failures", "inferences", "executions", "batches"),
        *("success_ns", "fail_ns", "queue_ns", "input_ns", "infer_ns", "output_ns"),
    )

    def __init__(self) -> None:
        self.last_ms = 0
        """When the last request ended, in milliseconds since 1970."""
        self.successes = self.failures = 0
        """Requests."""
        self.inferences = 0
        """Clouds of the requests that succeeded."""
        self.executions = 0
        """Batches that they were in."""
        self.success_ns = self.fail_ns = self.queue_ns = 0
        self.input_ns = self.infer_ns = self.output_ns = 0
        self.batches: dict[int, tuple[int, int]] = {}
        """By requests in a batch: how many such batches, and their time in the engine."""

    def phases(self) -> Sequence[tuple[str, int, int]]:
        """Name, count and time of each phase, as Triton calls them."""
        return (
            ("success", self.successes, self.success_ns),
            ("fail", self.failures, self.fail_ns),
            ("queue", self.successes, self.queue_ns),
            ("compute_input", self.successes, self.input_ns),
            ("compute_infer", self.successes, self.infer_ns),
            ("compute_output", self.successes, self.output_ns),
        )


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
        infer_ns = int(outcome.compute_ms * 1e6)
        statistics.last_ms = time.time_ns() // 1_000_000
        statistics.successes += 1
        statistics.inferences += clouds
        statistics.success_ns += ended - begun
        statistics.queue_ns += int(outcome.queue_ms * 1e6)
        statistics.input_ns += decoded - begun
        statistics.infer_ns += infer_ns
        statistics.output_ns += ended - computed
        if outcome.batch_requests:
            statistics.executions += 1
            count, ns = statistics.batches.get(outcome.batch_requests, (0, 0))
            statistics.batches[outcome.batch_requests] = count + 1, ns + infer_ns

    def fail(self, model: str, begun: int) -> None:
        """Counts a request that has no answer, and began then."""
        statistics = self.of(model)
        statistics.last_ms = time.time_ns() // 1_000_000
        statistics.failures += 1
        statistics.fail_ns += time.monotonic_ns() - begun
