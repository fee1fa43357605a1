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


class RequestRecord(NamedTuple):
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
        self.noted: list[RequestRecord] = []
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
            counted = _count_all([request for request in noted if request.model == model])
            add_statistics(self.of(model), counted)


def add_statistics(to: pb.ModelStatistics, other: pb.ModelStatistics) -> None:
    """Adds the counts and times of a model; the later time of a last request counts."""
    to.last_inference = max(to.last_inference, other.last_inference)
    to.inference_count += other.inference_count
    to.execution_count += other.execution_count
    for field, duration in other.inference_stats.ListFields():
        _add(getattr(to.inference_stats, field.name), duration.count, duration.ns)
    batches = {batch.batch_size: batch for batch in to.batch_stats}
    for batch in other.batch_stats:
        if batch.batch_size in batches:
            infer = batch.compute_infer
            _add(batches[batch.batch_size].compute_infer, infer.count, infer.ns)
        else:
            to.batch_stats.append(batch)
    to.batch_stats.sort(key=lambda batch: batch.batch_size)


def _count_all(requests: list[RequestRecord]) -> pb.ModelStatistics:
    """The statistics of some requests of one model."""
    since_1970 = time.time_ns() - time.monotonic_ns()
    counted = pb.ModelStatistics(
        last_inference=(since_1970 + requests[-1].ended) // 1_000_000,
        inference_count=sum(request.clouds for request in requests),
    )
    stats, count = counted.inference_stats, len(requests)
    _add(stats.success, count, sum(r.ended - r.begun for r in requests))
    _add(stats.queue, count, sum(int(r.queue_ms * 1e6) for r in requests))
    _add(stats.compute_input, count, sum(r.decoded - r.begun for r in requests))
    _add(stats.compute_infer, count, sum(int(r.compute_ms * 1e6) for r in requests))
    _add(stats.compute_output, count, sum(r.ended - r.computed for r in requests))
    # One request of a batch stands for it.
    firsts = [request for request in requests if request.batch_requests]
    counted.execution_count = len(firsts)
    for size in {request.batch_requests for request in firsts}:
        times = [int(r.compute_ms * 1e6) for r in firsts if r.batch_requests == size]
        _add(counted.batch_stats.add(batch_size=size).compute_infer, len(times), sum(times))
    return counted


def _add(duration: pb.StatisticDuration, count: int, ns: int) -> None:
    duration.count += count
    duration.ns += ns
