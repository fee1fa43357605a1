"""Spans of calls, and servers that cannot send them."""

import asyncio
import sys
import time
from contextlib import suppress

import grpc
import pytest
from tests.support.rpc import AbortError, CallContext, intercept

from farpoint_server import request_context
from farpoint_server.errors import OverloadedError, StartError
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.tracing import Tracing, export_to


def test_without_opentelemetry_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(StartError, match=r"farpoint-server\[tracing\]"):
        export_to("http://127.0.0.1:1")


def test_a_collector_that_is_away_delays_nothing():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")
    tracing = Tracing(export_to("http://127.0.0.1:1"))
    begun = time.monotonic()
    tracing.stop()
    assert time.monotonic() - begun < 20


SAMPLE = "farpoint.v1.SamplingService/Sample"


@pytest.fixture
def traced():
    """Calls a method; the spans that have ended."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    interceptor = RequestInterceptor(InFlight(), tracing=Tracing(provider))
    request_context.variable.set(None)

    async def call(behavior):
        handler = grpc.unary_unary_rpc_method_handler(behavior)
        guarded = await intercept(interceptor, f"/{SAMPLE}", handler)
        with suppress(AbortError, asyncio.CancelledError):
            await guarded.stream_unary(None, CallContext(b"hello"))
        return kept.get_finished_spans()

    return call


async def answer(request, context):  # noqa: ARG001
    request_context.bind(points=7, secret="no")
    return request


@pytest.mark.parametrize(
    ("protocol", "system"), [("connect", "connect_rpc"), ("rest", "http"), (None, "grpc")]
)
async def test_a_call_is_named_by_the_protocol_that_it_came_with(traced, protocol, system):
    if protocol:
        request_context.bind(protocol=protocol)
    (span,) = await traced(answer)
    assert span.attributes["rpc.system"] == system


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("a secret"), grpc.StatusCode.INTERNAL),
        (OverloadedError("a secret", 5), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (asyncio.CancelledError(), grpc.StatusCode.CANCELLED),
    ],
)
async def test_a_call_that_fails_has_its_status_and_not_its_text(traced, error, code):
    async def fail(request, context):  # noqa: ARG001
        raise error

    (span,) = await traced(fail)
    assert (span.parent, span.events, span.status.description) == (None, (), code.name)
    assert span.attributes["rpc.grpc.status_code"] == code.value[0]
