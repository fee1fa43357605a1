"""The metrics that are read at each scrape, from the parts of a server that know them."""

from collections.abc import Callable
from functools import partial

from farpoint_server.app.compute import Compute
from farpoint_server.app.servicers import Parts
from farpoint_server.observability.memory_metrics import MemoryCollector
from farpoint_server.observability.metrics import GAUGES
from farpoint_server.observability.setup import Telemetry
from farpoint_server.scheduling.batcher import Batcher


def show_state(telemetry: Telemetry, parts: Parts) -> None:
    """Adds the gauges of GAUGES and those of memory."""
    compute, batcher = parts.compute, parts.compute.batcher
    for name, read in (
        ("serving", lambda: parts.health.is_serving),
        ("calls", lambda: parts.in_flight.calls),
        ("points_in_flight", lambda: parts.admission.points),
        ("bytes_in_flight", lambda: parts.admission.bytes),
        ("queue_requests", lambda: batcher.waiting_requests),
        ("queue_points", lambda: batcher.waiting_points),
        ("shared_memory_bytes", lambda: parts.regions.size),
    ):
        telemetry.add_gauge(f"farpoint_{name}", GAUGES[name], read)
    telemetry.add_device_gauge("farpoint_queue_seconds", GAUGES["queue_seconds"], _waits(compute))
    memories = [engine.memory for engine in compute.monitor.engines]
    telemetry.add_collector(MemoryCollector(lambda: [memory.snapshot for memory in memories]))


def _waits(compute: Compute) -> dict[str, Callable[[], float]]:
    """By device, the wait of a request that came now: its engine with the shortest queue."""
    batchers: dict[str, list[Batcher]] = {}
    for engine, batcher in zip(compute.engines, compute.batchers, strict=True):
        batchers.setdefault(str(engine.device), []).append(batcher)
    return {device: partial(_least, each) for device, each in batchers.items()}


def _least(batchers: list[Batcher]) -> float:
    return min(batcher.wait_s for batcher in batchers)
