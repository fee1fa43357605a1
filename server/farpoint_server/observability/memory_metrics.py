"""Prometheus collector of each device's memory, as its manager saw it last."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from farpoint_server.memory.snapshot import MemorySnapshot, Trims

Snapshots: TypeAlias = Sequence[MemorySnapshot]
Read: TypeAlias = Callable[[MemorySnapshot], float]

GAUGES: Mapping[str, tuple[str, Read]] = {
    "allocated_bytes": ("In live tensors; on a CPU, in live heap.", lambda s: s.stats.allocated),
    "reserved_bytes": ("Live and cached.", lambda s: s.stats.reserved),
    "idle_bytes": ("Cached: reserved and not allocated.", lambda s: s.stats.idle),
    "releasable_bytes": ("What a trim would give back now.", lambda s: s.stats.releasable),
    "fragmentation_ratio": (
        "Share of the reserved bytes that is cached and cannot be released.",
        lambda s: s.stats.fragmentation,
    ),
    "host_cache_bytes": ("Pinned host memory, live and cached.", lambda s: s.stats.host_reserved),
    "free_bytes": ("Free on the device, over all of its users.", lambda s: s.headroom.free),
    "total_bytes": ("Of the device.", lambda s: s.headroom.total),
    "limit_bytes": ("What the server may hold; 0 is no limit.", lambda s: s.limit or 0),
    "healthy": ("1 if the device serves, else 0.", lambda s: s.healthy),
}
COUNTERS: Mapping[str, tuple[str, Read]] = {
    "retries": ("Flushes of the cache in the middle of a batch.", lambda s: s.stats.retries),
    "out_of_memory": ("Times that memory ran out in a batch.", lambda s: s.oom_count),
    "refused": ("Requests refused because they would not fit.", lambda s: s.refused),
}
TRIMS: Mapping[str, tuple[str, Callable[[Trims], float]]] = {
    "trims": ("Trims, by reason.", lambda t: t.count),
    "trim_seconds": ("Time spent in trims.", lambda t: t.seconds),
    "trim_returned_bytes": ("Bytes that trims gave back.", lambda t: t.returned_bytes),
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
        for kind, metrics in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
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
