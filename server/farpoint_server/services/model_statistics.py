"""Counts and times of the requests to each model since the server started, as Triton reports them.

Every way to a model counts: Sample, SampleStream, SampleLarge, Encode and Open Inference. A request
that ended is noted, which takes no time to speak of, and counted with others later.
"""

import time
from typing import NamedTuple

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference.tensors import VERSION

# Requests that are noted and not counted; some 100 bytes each.
MAX_NOTED = 256


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


class ModelStatistics:
    """The statistics of all models. Belongs to the event loop.

    Attributes:
        noted: Requests to count. The caller that makes it as long as MAX_NOTED has them counted.
    """

    def __init__(self) -> None:
        self.noted: list[Ended] = []
        self._models: dict[str, pb.ModelStatistics] = {}

    def of(self, model: str) -> pb.ModelStatistics:
        """Those of one model up to now."""
        self.count()
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = pb.ModelStatistics(name=model, version=VERSION)
        return found

    def forget(self, model: str) -> None:
        """Begins anew with a model."""
        self.count()
        self._models.pop(model, None)

    def fail(self, model: str, begun: int) -> None:
        """Counts a request that has no answer, and whose decoding began then."""
        statistics = self.of(model)
        statistics.last_inference = time.time_ns() // 1_000_000
        _add(statistics.inference_stats.fail, 1, time.monotonic_ns() - begun)

    def count(self) -> None:
        """Counts what is noted."""
        noted, self.noted = self.noted, []
        for model in {request.model for request in noted}:
            _count_all(self.of(model), [request for request in noted if request.model == model])


def _count_all(statistics: pb.ModelStatistics, requests: list[Ended]) -> None:
    """Adds requests to the statistics of their model."""
    since_1970 = time.time_ns() - time.monotonic_ns()
    statistics.last_inference = (since_1970 + requests[-1].ended) // 1_000_000
    statistics.inference_count += sum(request.clouds for request in requests)
    stats, count = statistics.inference_stats, len(requests)
    _add(stats.success, count, sum(r.ended - r.begun for r in requests))
    _add(stats.queue, count, sum(int(r.queue_ms * 1e6) for r in requests))
    _add(stats.compute_input, count, sum(r.decoded - r.begun for r in requests))
    _add(stats.compute_infer, count, sum(int(r.compute_ms * 1e6) for r in requests))
    _add(stats.compute_output, count, sum(r.ended - r.computed for r in requests))
    batches = {batch.batch_size: batch for batch in statistics.batch_stats}
    # In a batch one request stands for it.
    for request in requests:
        if size := request.batch_requests:
            if size not in batches:
                batches[size] = pb.InferBatchStatistics(batch_size=size)
            statistics.execution_count += 1
            _add(batches[size].compute_infer, 1, int(request.compute_ms * 1e6))
    ordered = [batches[size] for size in sorted(batches)]
    del statistics.batch_stats[:]
    statistics.batch_stats.extend(ordered)


def _add(duration: pb.StatisticDuration, count: int, ns: int) -> None:
    duration.count += count
    duration.ns += ns
