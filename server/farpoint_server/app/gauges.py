"""The metrics that are read at each scrape, from the parts of a server that know them."""

from farpoint_server.app.servicers import Parts
from farpoint_server.observability.metrics.instruments import GAUGES
from farpoint_server.observability.metrics.memory import MemoryCollector
from farpoint_server.observability.setup import Telemetry


def show_state(telemetry: Telemetry, parts: Parts) -> None:
    """Adds the gauges of GAUGES and those of memory."""
    batcher, engines = parts.compute.batcher, parts.compute.engines
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
    waiting = {
        str(engine.device): batcher.wait_s
        for engine, batcher in zip(engines, parts.compute.batchers, strict=True)
    }
    telemetry.add_device_gauge("farpoint_queue_seconds", GAUGES["queue_seconds"], waiting)
    telemetry.add_collector(MemoryCollector(lambda: [engine.memory.snapshot for engine in engines]))
