"""Counts and times of the requests to each model since the server started, as Triton reports them.

Every way to a model counts: Sample, SampleStream, SampleLarge, Encode and Open Inference. A request
that ended is noted, which takes no time to speak of, and counted with others later.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

# Requests that are noted and not counted; some 100 bytes each.
MOST_NOTED = 256


class Ended(NamedTuple):
    """A request that has its answer. Times are of time.monotonic_ns."""

    model: str
    clouds: int
    batch_requests: int
    """As in its Outcome, and so are the next two."""
    queue_ms: float
    compute_ms: float
    begun: int
    """Its decoding."""
    decoded: int
    computed: int
    ended: int


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
    """The statistics of all models. Belongs to the event loop.

    Attributes:
        noted: Requests to count. Whoever makes it as long as MOST_NOTED has them counted.
    """

    def __init__(self) -> None:
        self.noted: list[Ended] = []
        self._models: dict[str, Statistics] = {}

    def of(self, model: str) -> Statistics:
        """Those of one model up to now."""
        self.count()
        return self._of(model)

    def forget(self, model: str) -> None:
        """Begins anew with a model."""
        self.count()
        self._models.pop(model, None)

    def count(self) -> None:
        """Counts what is noted."""
        since_1970 = time.time_ns() - time.monotonic_ns()
        for request in self.noted:
            statistics = self._of(request.model)
            infer_ns = int(request.compute_ms * 1e6)
            statistics.last_ms = (since_1970 + request.ended) // 1_000_000
            statistics.successes += 1
            statistics.inferences += request.clouds
            statistics.success_ns += request.ended - request.begun
            statistics.queue_ns += int(request.queue_ms * 1e6)
            statistics.input_ns += request.decoded - request.begun
            statistics.infer_ns += infer_ns
            statistics.output_ns += request.ended - request.computed
            if request.batch_requests:
                statistics.executions += 1
                count, ns = statistics.batches.get(request.batch_requests, (0, 0))
                statistics.batches[request.batch_requests] = count + 1, ns + infer_ns
        self.noted.clear()

    def fail(self, model: str, begun: int) -> None:
        """Counts a request that has no answer, and whose decoding began then."""
        statistics = self.of(model)
        statistics.last_ms = time.time_ns() // 1_000_000
        statistics.failures += 1
        statistics.fail_ns += time.monotonic_ns() - begun

    def _of(self, model: str) -> Statistics:
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = Statistics()
        return found
