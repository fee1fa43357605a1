"""Metrics over HTTP and OpenTelemetry traces, set up as the settings say."""

import asyncio
from collections.abc import Callable, Sequence

import grpc
from prometheus_client import (
    CollectorRegistry,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from farpoint_server.config.network import NetworkSettings
from farpoint_server.observability import http
from farpoint_server.observability.metrics.calls import CallMetrics
from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.transport.http_server import HttpServer
from farpoint_server.transport.tracing import TracingInterceptor


class Telemetry:
    """Metrics are always counted; where they are shown is up to the settings.

    Args:
        settings: The server's.
        is_serving: Whether the server is healthy.

    Raises:
        StartError: the address of HTTP cannot be bound, or OpenTelemetry is not installed.
    """

    def __init__(self, settings: NetworkSettings, is_serving: Callable[[], bool]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.instruments = Instruments(self._registry)
        self.calls = CallMetrics(self.instruments)
        endpoint = settings.otlp_endpoint
        self._tracing = TracingInterceptor(endpoint) if endpoint else None
        self._is_serving = is_serving
        address = settings.http_listen
        self._http = HttpServer("--http-listen", address) if address else None

    @property
    def interceptors(self) -> Sequence[grpc.aio.ServerInterceptor]:
        """To be outside of RequestInterceptor."""
        return [self._tracing] if self._tracing else []

    @property
    def http_address(self) -> str | None:
        """Where /metrics is, with the port that was taken."""
        return self._http.address if self._http else None

    def add_gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Adds a metric that is read at each scrape, on the thread of the scrape."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def add_collector(self, collector: Collector) -> None:
        """Adds metrics that are made at each scrape."""
        self._registry.register(collector)

    async def start(self) -> None:
        """Answers HTTP from now on."""
        if self._http:
            await self._http.start(Starlette(routes=http.routes(self._registry, self._is_serving)))

    async def stop(self) -> None:
        """Closes HTTP and sends the traces that wait. May take a second."""
        if self._http:
            await self._http.stop()
        if self._tracing:
            await asyncio.to_thread(self._tracing.stop)
