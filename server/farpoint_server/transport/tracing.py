"""gRPC server interceptor that opens an OpenTelemetry span per call, in the caller's trace."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc

from farpoint_server import request_context, version
from farpoint_server.errors import StartError
from farpoint_server.transport.handlers import Behavior, Context, Handler, kind_of
from farpoint_server.transport.interceptor import PACKAGES

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

FIELDS = ("request_id", "points", "clouds", "samples", "queue_ms", "compute_ms")
SHUTDOWN_MS = 1000
# OpenTelemetry's names of the protocols of calls; gRPC's own calls have none.
SYSTEMS = {"connect": "connect_rpc", "rest": "http"}
CODES = {code.value[0]: code for code in grpc.StatusCode}


class TracingInterceptor(grpc.aio.ServerInterceptor):
    """Opens a span before a call's handler, and ends it when the answer is complete.

    It must be outside of RequestInterceptor, which turns every handler into a coroutine function.
    An exporter sends the spans in batches. OpenTelemetry's own environment variables
    (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, ...) are heeded.

    Args:
        endpoint: URL of a collector that takes OTLP over gRPC.

    Raises:
        StartError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str) -> None:
        self._provider = _provider(endpoint)
        self._tracer = self._provider.get_tracer("farpoint_server", version())

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        handler = await continuation(handler_call_details)
        rpc = str(handler_call_details.method)[1:]
        if handler is None or not rpc.startswith(PACKAGES):
            return handler
        kind = kind_of(handler)
        behavior: Behavior = getattr(handler, kind)
        metadata = handler_call_details.invocation_metadata or ()

        async def traced(request: Any, context: Context) -> Any:
            with self._open(rpc, metadata) as span:
                trace_id = f"{span.get_span_context().trace_id:032x}"
                request_context.bind(trace_id=trace_id)
                code = grpc.StatusCode.OK
                try:
                    return await behavior(request, context)
                except BaseException as error:
                    code = _code_of(error, context)
                    raise
                finally:
                    _describe_end(span, code)

        make: Callable[..., Handler] = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(traced, handler.request_deserializer, handler.response_serializer)

    def stop(self) -> None:
        """Sends waiting spans; a collector that does not answer is not waited for long."""
        self._provider.force_flush(SHUTDOWN_MS)

    def _open(self, rpc: str, metadata: Any) -> Any:
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind

        service, _, method = rpc.rpartition("/")
        system = SYSTEMS.get(str(request_context.current().fields.get("protocol")), "grpc")
        return self._tracer.start_as_current_span(
            rpc,
            propagate.extract({key: value for key, value in metadata if isinstance(value, str)}),
            SpanKind.SERVER,
            {"rpc.system": system, "rpc.service": service, "rpc.method": method},
            # An exception's text is for the log; of a bug it may quote a caller's data.
            record_exception=False,
            set_status_on_exception=False,
        )


def _code_of(error: BaseException, context: Context) -> grpc.StatusCode:
    """The status of a call that ended with an exception."""
    if isinstance(error, asyncio.CancelledError):
        return grpc.StatusCode.CANCELLED
    # gRPC's exception does not say with which status the call was aborted.
    code: grpc.StatusCode | int = context.code()
    return CODES.get(code, grpc.StatusCode.UNKNOWN) if isinstance(code, int) else code


def _describe_end(span: "Span", code: grpc.StatusCode) -> None:
    from opentelemetry.trace import Status, StatusCode

    fields = request_context.current().fields
    for name in FIELDS:
        if name in fields:
            span.set_attribute(f"farpoint.{name}", fields[name])
    span.set_attribute("rpc.grpc.status_code", code.value[0])
    if code is not grpc.StatusCode.OK:
        span.set_status(Status(StatusCode.ERROR, code.name))


def _provider(endpoint: str) -> "TracerProvider":
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
