"""Traces that are asked for where they cannot be made."""

import asyncio
import sys
import time

import grpc
import pytest
from tests.support.rpc import AbortError, CallContext, intercept

from farpoint_server import request_context
from farpoint_server.errors import StartError
from farpoint_server.transport.tracing import TracingInterceptor


def test_without_opentelemetry_the_server_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(StartError, match=r"farpoint-server\[tracing\]"):
        TracingInterceptor("http://127.0.0.1:1")


def test_a_collector_that_is_away_holds_up_nobody():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")
    tracing = TracingInterceptor("http://127.0.0.1:1")
    begun = time.monotonic()
    tracing.stop()
    assert time.monotonic() - begun < 20


SAMPLE = "farpoint.v1.SamplingService/Sample"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traced():
    """An interceptor whose spans are kept, and those that ended."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = TracingInterceptor("http://127.0.0.1:1")
    tracing._tracer = provider.get_tracer("test")
    request_context.variable.set(None)
    return tracing, kept.get_finished_spans


async def answer(request, context):  # noqa: ARG001
    request_context.bind(points=7, secret="no")
    return request


async def test_a_call_is_a_span_of_its_callers_trace(traced):
    tracing, spans = traced
    handler = grpc.unary_unary_rpc_method_handler(answer, bytes, str)
    metadata = (("traceparent", PARENT), ("other-bin", b"x"))
    wrapped = await intercept(tracing, f"/{SAMPLE}", handler, *metadata)
    assert (wrapped.request_deserializer, wrapped.response_serializer) == (bytes, str)
    assert await wrapped.unary_unary(b"hello", CallContext()) == b"hello"
    (span,) = spans()
    assert (span.name, span.kind.name, span.status.is_ok) == (SAMPLE, "SERVER", True)
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert request_context.current().fields["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert dict(span.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "farpoint.v1.SamplingService",
        "rpc.method": "Sample",
        "farpoint.points": 7,
        "rpc.grpc.status_code": 0,
    }


@pytest.mark.parametrize(
    ("protocol", "system"), [("connect", "connect_rpc"), ("rest", "http"), (None, "grpc")]
)
async def test_a_call_is_named_by_the_protocol_that_it_came_with(traced, protocol, system):
    tracing, spans = traced
    if protocol:
        request_context.bind(protocol=protocol)
    wrapped = await intercept(tracing, f"/{SAMPLE}", grpc.unary_unary_rpc_method_handler(answer))
    await wrapped.unary_unary(b"hello", CallContext())
    assert [span.attributes["rpc.system"] for span in spans()] == [system]


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, 13])
async def test_a_call_that_fails_has_its_status_and_not_its_text(traced, code):
    async def fail(request, context):  # noqa: ARG001
        raise AbortError("a secret")

    tracing, spans = traced
    handler = grpc.unary_unary_rpc_method_handler(fail)
    context = CallContext()
    context.code = lambda: code
    wrapped = await intercept(tracing, f"/{SAMPLE}", handler)
    with pytest.raises(AbortError):
        await wrapped.unary_unary(b"hello", context)
    (span,) = spans()
    assert (span.parent, span.events, span.status.description) == (None, (), "INTERNAL")
    assert span.attributes["rpc.grpc.status_code"] == 13


async def test_a_cancelled_call_has_the_status_cancelled(traced):
    async def leave(request, context):  # noqa: ARG001
        raise asyncio.CancelledError

    tracing, spans = traced
    wrapped = await intercept(tracing, f"/{SAMPLE}", grpc.unary_stream_rpc_method_handler(leave))
    with pytest.raises(asyncio.CancelledError):
        await wrapped.unary_stream(b"hello", CallContext())
    assert [span.status.description for span in spans()] == ["CANCELLED"]


async def test_probes_and_methods_that_are_not_there_have_no_span(traced):
    tracing, _ = traced
    handler = grpc.unary_unary_rpc_method_handler(answer)
    assert await intercept(tracing, "/grpc.health.v1.Health/Check", handler) is handler
    assert await intercept(tracing, f"/{SAMPLE}", None) is None
