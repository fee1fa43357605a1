"""OpenTelemetry spans of calls."""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import grpc

from farpoint_server import request_context, version
from farpoint_server.errors import StartError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

Field: TypeAlias = Literal["request_id", "points", "clouds", "samples", "queue_ms", "compute_ms"]
FIELDS: tuple[Field, ...] = get_args(Field)
SHUTDOWN_MS = 1000
# OpenTelemetry's names of the protocols of calls; gRPC's own calls have none.
SYSTEMS = {"connect": "connect_rpc", "rest": "http"}


class Tracing:
    """Spans of calls, each in its caller's trace; they are sent in batches.

    OpenTelemetry's own environment variables (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, ...) are
    heeded.

    Args:
        provider: See `export_to`.
    """

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("farpoint_server", version())

    def begin(self, rpc: str, metadata: Any) -> "Span":
        """A span of the current call, whose log line gets its trace."""
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind

        service, _, method = rpc.rpartition("/")
        system = SYSTEMS.get(str(request_context.current().fields.get("protocol")), "grpc")
        texts = {key: value for key, value in metadata or () if isinstance(value, str)}
        span = self._tracer.start_span(
            rpc,
            propagate.extract(texts),
            SpanKind.SERVER,
            {"rpc.system": system, "rpc.service": service, "rpc.method": method},
        )
        request_context.bind(trace_id=f"{span.get_span_context().trace_id:032x}")
        return span

    def end(self, span: "Span", code: grpc.StatusCode) -> None:
        """Ends the span of the current call, without the text of an error, which may quote data."""
        from opentelemetry.trace import Status, StatusCode

        fields = request_context.current().fields
        for name in FIELDS:
            if name in fields:
                span.set_attribute(f"farpoint.{name}", fields[name])
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code is not grpc.StatusCode.OK:
            span.set_status(Status(StatusCode.ERROR, code.name))
        span.end()

    def stop(self) -> None:
        """Sends waiting spans, with a short timeout."""
        self._provider.force_flush(SHUTDOWN_MS)


def export_to(endpoint: str) -> "TracerProvider":
    """A provider that sends spans to a collector by OTLP over gRPC.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise StartError(
            "--otlp-endpoint: OpenTelemetry is not installed; "
            "pip install 'farpoint-server[tracing]'"
        ) from error
    named: dict[str, Any] = {SERVICE_NAME: "farpoint-server", "service.version": version()}
    provider = TracerProvider(
        resource=Resource(named).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider
