"""What an operator sees besides the log: metrics over HTTP, and traces."""

from collections.abc import Callable, Sequence

import grpc
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.registry import Collector

from farpoint_server.config.network import EdgeSettings
from farpoint_server.observability.http import HttpEndpoint
from farpoint_server.observability.metrics.calls import CallMeter
from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.transport.around import Around
from farpoint_server.transport.tracing import Tracing


class Observation:
    """Metrics are always counted; where they are shown is up to the settings.

    Args:
        settings: The server's.
        is_serving: Whether the server is healthy; called on any thread.

    Raises:
        StartError: the address of HTTP cannot be bound, or OpenTelemetry is not installed.
    """

    def __init__(self, settings: EdgeSettings, is_serving: Callable[[], bool]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.instruments = Instruments(self._registry)
        self.calls = CallMeter(self.instruments)
        self._tracing = Tracing(settings.otlp_endpoint) if settings.otlp_endpoint else None
        self._http = (
            HttpEndpoint(settings.http_listen, self._registry, is_serving)
            if settings.http_listen
            else None
        )

    @property
    def interceptors(self) -> Sequence[grpc.aio.ServerInterceptor]:
        """To be outside of the boundary of calls."""
        return [Around(self._tracing)] if self._tracing else []

    @property
    def http_address(self) -> str | None:
        """Where /metrics is, with the port that was taken."""
        return self._http.address if self._http else None

    def show(self, *collectors: Collector) -> None:
        """Adds what is read at each scrape."""
        for collector in collectors:
            self._registry.register(collector)

    def start(self) -> None:
        """Answers HTTP from now on."""
        if self._http:
            self._http.start()

    def stop(self) -> None:
        """Closes HTTP and sends the traces that wait. May take a second."""
        if self._http:
            self._http.stop()
        if self._tracing:
            self._tracing.stop()
