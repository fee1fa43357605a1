"""Prometheus metrics and OpenTelemetry traces, set up as the settings say."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector
from starlette.routing import Route

from farpoint_server.config.settings import Settings
from farpoint_server.observability import http
from farpoint_server.observability.metrics import CallMetrics, Instruments
from farpoint_server.transport.tracing import Tracing, export_to


class Telemetry:
    """Metrics are always counted; where they are shown is up to the settings.

    Args:
        settings: The server's.
        is_serving: Whether the server is healthy.
        others: Its other processes.

    Raises:
        StartError: OpenTelemetry is not installed.
    """

    def __init__(
        self, settings: Settings, is_serving: Callable[[], bool], others: http.Others
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.instruments = Instruments(self._registry)
        self.calls = CallMetrics(self.instruments)
        endpoint = settings.otlp_endpoint
        self.tracing = Tracing(export_to(endpoint)) if endpoint else None
        self._is_serving, self._others = is_serving, others

    @property
    def routes(self) -> Sequence[Route]:
        """/metrics and health, for the application of HTTP."""
        return http.routes(self._registry, self._is_serving, self._others)

    @property
    def health_routes(self) -> Sequence[Route]:
        """Health alone, for probes."""
        return http.health_routes(self._is_serving, self._others)

    def exposition(self) -> bytes:
        """The exposition of this process alone."""
        return generate_latest(self._registry)

    def add_gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Adds a metric that is read at each scrape, on the thread of the scrape."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def add_device_gauge(
        self, name: str, text: str, reads: Mapping[str, Callable[[], float]]
    ) -> None:
        """The same with the label `device`."""
        gauge = Gauge(name, text, ("device",), registry=self._registry)
        for device, read in reads.items():
            gauge.labels(device).set_function(read)

    def add_collector(self, collector: Collector) -> None:
        """Adds metrics that are made at each scrape."""
        self._registry.register(collector)

    async def stop(self) -> None:
        """Sends the traces that wait. May take a second."""
        if self.tracing:
            await asyncio.to_thread(self.tracing.stop)
