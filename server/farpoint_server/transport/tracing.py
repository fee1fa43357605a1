"""OpenTelemetry traces: one span per call, in the caller's trace where it sends one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc

from farpoint_server import request_context as call
from farpoint_server import version
from farpoint_server.errors import MissingPackageError
from farpoint_server.transport.interceptor import Context

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

FIELDS = ("request_id", "points", "clouds", "samples", "queue_ms", "compute_ms")
SHUTDOWN_MS = 1000
CODES = {code.value[0]: code.name for code in grpc.StatusCode}


class Tracing:
    """The scope of `Around` that makes spans, and the exporter that sends them in batches.

    OpenTelemetry's own environment variables (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, ...)
    are heeded.

    Args:
        endpoint: URL of a collector that takes OTLP over gRPC.

    Raises:
        MissingPackageError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str) -> None:
        self._provider = _provider(endpoint)
        self._tracer = self._provider.get_tracer("farpoint_server", version())

    @contextmanager
    def __call__(
        self, rpc: str, context: Context, details: grpc.HandlerCallDetails
    ) -> Iterator[None]:
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind, format_trace_id

        headers = {
            key: value for key, value in details.invocation_metadata or () if isinstance(value, str)
        }
        service, _, method = rpc.rpartition("/")
        with self._tracer.start_as_current_span(
            rpc,
            propagate.extract(headers),
            SpanKind.SERVER,
            {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
            # An exception's text is for the log; of a bug it may quote a caller's data.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            trace_id = format_trace_id(span.get_span_context().trace_id)
            call.bind(trace_id=trace_id)
            code = "OK"
            try:
                yield
            except BaseException as error:
                code = _code_of(error, context)
                raise
            finally:
                _describe_end(span, code)

    def stop(self) -> None:
        """Sends what waits; a collector that does not answer is not waited for long."""
        self._provider.force_flush(SHUTDOWN_MS)


def _code_of(error: BaseException, context: Context) -> str:
    """Name of the status of a call that ended with an exception."""
    if isinstance(error, asyncio.CancelledError):
        return "CANCELLED"
    # gRPC's exception says only that the call was aborted; a number in older versions.
    code: grpc.StatusCode | int = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else CODES.get(code, "UNKNOWN")


def _describe_end(span: "Span", code: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    fields = call.current().fields
    for name in FIELDS:
        if name in fields:
            span.set_attribute(f"farpoint.{name}", fields[name])
    span.set_attribute("rpc.grpc.status_code", grpc.StatusCode[code].value[0])
    if code != "OK":
        span.set_status(Status(StatusCode.ERROR, code))


def _provider(endpoint: str) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingPackageError(
            "--otlp-endpoint: OpenTelemetry is not installed; "
            "pip install 'farpoint-server[tracing]'"
        ) from error
    named: dict[str, Any] = {SERVICE_NAME: "farpoint-server", "service.version": version()}
    provider = TracerProvider(
        resource=Resource(named).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider
