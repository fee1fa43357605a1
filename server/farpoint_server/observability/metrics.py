"""Prometheus metrics: calls, refusals, phases, batches, models, and the memory of devices."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeAlias

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from farpoint_server.compute.lane import BatchMetrics
from farpoint_server.compute.memory.snapshot import MemorySnapshot, Trims
from farpoint_server.errors import ServiceError
from farpoint_server.request_context import Fields
from farpoint_server.transport.grpc.interceptor import RequestMetrics

# From a cloud of a few points on an idle server to a queue of seconds.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
POINTS = tuple(4**k for k in range(5, 14))
PHASES = ("queue", "compute", "convert")

# Gauges that the app reads at each scrape, `farpoint_` before their names.
GAUGES: Mapping[str, str] = {
    "serving": "1 if health is SERVING, else 0.",
    "calls": "Calls accepted and not yet answered.",
    "points_in_flight": "Points of calls accepted and not yet answered.",
    "bytes_in_flight": "Bytes of messages and answers of calls in flight.",
    "queue_requests": "Requests waiting for an engine.",
    "queue_points": "Points of requests waiting for an engine.",
    "shared_memory_bytes": "Bytes of memory shared by callers.",
    "queue_seconds": "Predicted backlog of the device in seconds.",
}


class Series:
    """One series of a histogram, updated on the event loop; a scrape may read it at any time."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """The buckets, cumulative, and the sum of all values."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        return [*zip(names, accumulate(self._counts), strict=True)], self._sum


class Histogram(Collector):
    """Histogram without locks: six values a request, each 1.2 µs with those of prometheus_client.

    Args:
        name: Of the family.
        text: Its help.
        labels: Names of the labels.
        bounds: Upper ends of the buckets but the last.
    """

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        # Labels have the name that they have in the metrics of prometheus_client.
        self._name, self._text, self._labelnames = name, text, labels
        self._bounds = bounds
        self._series: dict[tuple[str, ...], Series] = {}

    def labels(self, *values: str) -> Series:
        """The series with these labels."""
        return self._series.setdefault(values, Series(self._bounds))

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labelnames)
        for values, series in self._series.copy().items():
            family.add_metric(values, *series.read())
        yield family


def new_registry() -> CollectorRegistry:
    """The metrics of this process: its memory, cores and files."""
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    return registry


class Instruments:
    """Counters and histograms in this server's own registry.

    `rpc` is "package.Service/Method" and `code` the name of a gRPC status. Calls of services that
    the server does not have are not counted, so no caller can make labels up; a `model` is one
    that is loaded.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"farpoint_{name}", text, labels, registry=registry)

        def histogram(
            name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS
        ) -> Histogram:
            made = Histogram(f"farpoint_{name}", text, labels, buckets)
            registry.register(made)
            return made

        self.rpcs = counter("rpcs", "Calls completed, by status.", "rpc", "code")
        self.rpc_seconds = histogram(
            "rpc_seconds", "Time from the arrival of a call to the end of its answer.", "rpc"
        )
        text = "Time of served calls in each phase: queue, compute, and convert for the rest."
        self.phase_seconds = histogram("phase_seconds", text, "rpc", "phase")
        text = "Time of served requests to a model in each phase."
        self.model_seconds = histogram("model_seconds", text, "model", "phase")
        self.model_failures = counter("model_failures", "Failed requests to a model.", "model")
        self.refusals = counter("refusals", "Calls rejected or cancelled, by reason.", "reason")
        self.device_requests = counter(
            "device_requests", "Requests processed by a device.", "device"
        )
        text = "Time spent in batches on a device, summed over concurrent batches."
        self.device_seconds = counter("device_seconds", text, "device")
        self.batch_requests = histogram("batch_requests", "Requests in a batch.", buckets=REQUESTS)
        self.batch_points = histogram("batch_points", "Points in a batch.", buckets=POINTS)

    def batches_of(self, device: str) -> BatchMetrics:
        """Metrics of the batches of one device."""
        return BatchMetrics(
            self.batch_requests.labels().observe,
            self.batch_points.labels().observe,
            self.device_requests.labels(device).inc,
            self.device_seconds.labels(device).inc,
        )


class CallMetrics(RequestMetrics):
    """Updates the instruments at the end of calls and requests."""

    def __init__(self, instruments: Instruments) -> None:
        # Methods, statuses and errors are few; looking a label up locks all of them.
        self._rpcs = cache(instruments.rpcs.labels)
        self._rpc_seconds = cache(instruments.rpc_seconds.labels)
        self._phase_seconds = cache(
            lambda rpc: [instruments.phase_seconds.labels(rpc, phase) for phase in PHASES]
        )
        self._refusals = cache(instruments.refusals.labels)
        self._model_seconds = cache(
            lambda model: [instruments.model_seconds.labels(model, phase) for phase in PHASES]
        )
        self._model_failures = cache(instruments.model_failures.labels)

    def end_call(self, rpc: str, code: str, seconds: float) -> None:
        """Counts a call, from its arrival to the end of its answer."""
        if code == "CANCELLED":
            self._refusals("cancelled").inc()
        self._rpcs(rpc, code).inc()
        self._rpc_seconds(rpc).observe(seconds)

    def end_request(
        self, rpc: str, seconds: float, error: Exception | None, fields: Fields
    ) -> None:
        """Counts a request; a call has one, or with SampleStream many."""
        if error is not None:
            self._refusals(reason_of(error)).inc()
            if "model" in fields:
                self._model_failures(fields["model"]).inc()
        elif "compute_ms" in fields:
            self._count_phases(rpc, seconds, fields)

    def count_refusal(self, reason: str) -> None:
        """Counts a rejection or cancellation outside of a request."""
        self._refusals(reason).inc()

    def _count_phases(self, rpc: str, seconds: float, fields: Fields) -> None:
        """Counts the phases of the log line."""
        queued, computed = fields["queue_ms"] / 1e3, fields["compute_ms"] / 1e3
        phases = [self._phase_seconds(rpc)]
        if "model" in fields:
            phases.append(self._model_seconds(fields["model"]))
        for queue, compute, convert in phases:
            queue.observe(queued)
            compute.observe(computed)
            convert.observe(max(seconds - queued - computed, 0))


def reason_of(error: Exception) -> str:
    """OverloadedError is "overloaded", EngineHungError "engine_hung"; a bug is "internal"."""
    if not isinstance(error, ServiceError):
        return "internal"
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


Snapshots: TypeAlias = Sequence[MemorySnapshot]
Read: TypeAlias = Callable[[MemorySnapshot], float]

MEMORY_GAUGES: Mapping[str, tuple[str, Read]] = {
    "allocated_bytes": (
        "Bytes in live tensors; on a CPU, in the live heap.",
        lambda s: s.stats.allocated,
    ),
    "reserved_bytes": ("Live and cached bytes.", lambda s: s.stats.reserved),
    "idle_bytes": ("Cached bytes: reserved, not allocated.", lambda s: s.stats.idle),
    "releasable_bytes": ("Bytes that a trim would return now.", lambda s: s.stats.releasable),
    "fragmentation_ratio": (
        "Share of the reserved bytes that is cached and cannot be released.",
        lambda s: s.stats.fragmentation,
    ),
    "host_cache_bytes": (
        "Bytes of pinned host memory, live and cached.",
        lambda s: s.stats.host_reserved,
    ),
    "free_bytes": ("Free bytes of the device, over all processes.", lambda s: s.headroom.free),
    "total_bytes": ("Total bytes of the device.", lambda s: s.headroom.total),
    "limit_bytes": ("Bytes that the server may use; 0 is no limit.", lambda s: s.limit or 0),
    "healthy": ("1 if the device serves, else 0.", lambda s: s.healthy),
}
MEMORY_COUNTERS: Mapping[str, tuple[str, Read]] = {
    "retries": ("Flushes of the allocator's cache during a batch.", lambda s: s.stats.retries),
    "out_of_memory": ("Batches that ran out of memory.", lambda s: s.oom_count),
    "refused": ("Requests refused because they would not fit.", lambda s: s.refused),
}
TRIMS: Mapping[str, tuple[str, Callable[[Trims], float]]] = {
    "trims": ("Trims, by reason.", lambda t: t.count),
    "trim_seconds": ("Time spent in trims.", lambda t: t.seconds),
    "trim_returned_bytes": ("Bytes that trims returned.", lambda t: t.returned_bytes),
}


class MemoryCollector(Collector):
    """The snapshots as metrics `farpoint_memory_*` with the label `device`."""

    def __init__(self, read: Callable[[], Snapshots]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        snapshots = self._read()
        yield GaugeMetricFamily(
            "farpoint_resident_bytes",
            "Resident memory of the server's process.",
            max((snapshot.resident for snapshot in snapshots), default=0),
        )
        for kind, metrics in (
            (GaugeMetricFamily, MEMORY_GAUGES),
            (CounterMetricFamily, MEMORY_COUNTERS),
        ):
            for name, (text, read) in metrics.items():
                family = kind(f"farpoint_memory_{name}", text, labels=("device",))
                for snapshot in snapshots:
                    family.add_metric((snapshot.device,), read(snapshot))
                yield family
        yield from _trims(snapshots)


def _trims(snapshots: Snapshots) -> Iterable[Metric]:
    for name, (text, read) in TRIMS.items():
        family = CounterMetricFamily(f"farpoint_memory_{name}", text, labels=("device", "reason"))
        for snapshot in snapshots:
            for reason, trims in snapshot.trims.items():
                family.add_metric((snapshot.device, reason.value), read(trims))
        yield family
