"""Metrics of calls, batches and memory; /metrics, /healthz and /readyz."""

import asyncio
import re

import grpc
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.compute.scheduling import until
from tests.support.rpc import METHOD, serving

from farpoint_server import errors
from farpoint_server.compute.memory.snapshot import MemorySnapshot, Reason, Trims
from farpoint_server.observability.http import MergedMetrics
from farpoint_server.observability.metrics import (
    CallMetrics,
    Instruments,
    MemoryCollector,
    reason_of,
)
from farpoint_server.request_context import bind
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight

RPC = METHOD.removeprefix("/")


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
async def call(registry):
    """Calls a method that is the given coroutine function."""
    interceptor = RequestInterceptor(InFlight(), CallMetrics(Instruments(registry)))

    async def call(behavior):
        async with serving(behavior, interceptor) as channel:
            return await channel.unary_unary(METHOD)(b"")

    return call


async def is_counted(registry, code):
    """A call is counted when it has ended, which its caller may know a moment earlier."""
    labels = {"rpc": RPC, "code": code}
    await until(lambda: registry.get_sample_value("farpoint_rpcs_total", labels) == 1)


async def test_a_served_call_is_counted_with_its_phases(call, registry):
    async def serve(request, context):  # noqa: ARG001
        bind(queue_ms=10.0, compute_ms=20.0)
        await asyncio.sleep(0.04)
        return request

    await call(serve)
    assert registry.get_sample_value("farpoint_rpcs_total", {"rpc": RPC, "code": "OK"}) == 1
    total = registry.get_sample_value("farpoint_rpc_seconds_sum", {"rpc": RPC})
    phases = {
        phase: registry.get_sample_value("farpoint_phase_seconds_sum", {"rpc": RPC, "phase": phase})
        for phase in ("queue", "compute", "convert")
    }
    assert (phases["queue"], phases["compute"]) == (0.01, 0.02)
    # The call goes on for a moment after its phases.
    assert 0.039 <= sum(phases.values()) <= total


async def test_requests_to_a_model_are_counted_by_its_name(call, registry):
    async def serve(request, context):  # noqa: ARG001
        bind(model="mine", queue_ms=10.0, compute_ms=20.0)
        return request

    async def fail(request, context):  # noqa: ARG001
        bind(model="mine")
        raise errors.InvalidRequestError("points", "another", "this")

    await call(serve)
    with pytest.raises(grpc.aio.AioRpcError):
        await call(fail)
    labels = {"model": "mine", "phase": "compute"}
    assert registry.get_sample_value("farpoint_model_seconds_sum", labels) == 0.02
    assert registry.get_sample_value("farpoint_model_seconds_count", labels) == 1
    assert registry.get_sample_value("farpoint_model_failures_total", {"model": "mine"}) == 1


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (errors.OverloadedError("full", 5), "RESOURCE_EXHAUSTED", "overloaded"),
        (errors.InvalidRequestError("a", "b", "c"), "INVALID_ARGUMENT", "invalid_request"),
        (errors.EngineHungError("late"), "UNAVAILABLE", "engine_hung"),
        (KeyError("a bug"), "INTERNAL", "internal"),
    ],
)
async def test_a_refusal_is_counted_with_its_reason(call, registry, error, code, reason):
    async def refuse(request, context):  # noqa: ARG001
        raise error

    with pytest.raises(grpc.aio.AioRpcError):
        await call(refuse)
    await is_counted(registry, code)
    assert registry.get_sample_value("farpoint_refusals_total", {"reason": reason}) == 1
    assert registry.get_sample_value("farpoint_phase_seconds_count", {"rpc": RPC}) is None


async def test_a_caller_that_leaves_is_counted(call, registry):
    begun = asyncio.Event()

    async def dawdle(request, context):  # noqa: ARG001
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(call(dawdle))
    await begun.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await is_counted(registry, "CANCELLED")
    assert registry.get_sample_value("farpoint_refusals_total", {"reason": "cancelled"}) == 1


def test_every_error_has_a_reason_of_its_own():
    types = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in types if issubclass(kind, errors.ServiceError)]
    reasons = {reason_of(kind.__new__(kind)) for kind in kinds}
    assert len(reasons) == len(kinds) > 10
    assert all(re.fullmatch("[a-z_]+", reason) for reason in reasons)


def test_memory_is_shown_by_device_and_trims_by_reason(registry):
    trims = {Reason.IDLE: Trims(2, 0.5, 0.4, 100)}
    devices = [MemorySnapshot("cpu", limit=50), MemorySnapshot("cuda:1", trims=trims, resident=7)]
    registry.register(MemoryCollector(lambda: devices))
    limits = [
        registry.get_sample_value("farpoint_memory_limit_bytes", {"device": device})
        for device in ("cpu", "cuda:1")
    ]
    assert limits == [50, 0]
    labels = {"device": "cuda:1"}
    assert registry.get_sample_value("farpoint_memory_healthy", labels) == 1
    assert registry.get_sample_value("farpoint_resident_bytes") == 7
    labels["reason"] = "idle"
    assert registry.get_sample_value("farpoint_memory_trims_total", labels) == 2
    assert registry.get_sample_value("farpoint_memory_trim_returned_bytes_total", labels) == 100


def exposition(calls: int, serving: int, seconds: float, *extra: str) -> str:
    registry = CollectorRegistry()
    Counter("calls", "Calls.", ("rpc",), registry=registry).labels("a").inc(calls)
    Gauge("serving", "Serving.", registry=registry).set(serving)
    Histogram("seconds", "Seconds.", buckets=(1, 2), registry=registry).observe(seconds)
    for name in extra:
        Gauge(name, "Of one alone.", registry=registry).set(5)
    return generate_latest(registry).decode()


def test_each_series_is_there_for_each_process_and_each_family_once():
    texts = {"engine": exposition(7, 0, 1.5, "alone"), "0": exposition(3, 1, 0.5)}
    text = generate_latest(MergedMetrics(texts)).decode()
    assert text.count("# TYPE calls_total counter") == 1
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    zero, one = ("process", "0"), ("process", "engine")
    assert values["calls_total", zero, ("rpc", "a")] == 3
    assert values["calls_total", one, ("rpc", "a")] == 7
    assert (values["serving", zero], values["serving", one]) == (1, 0)
    assert values["seconds_bucket", ("le", "1.0"), zero] == 1
    assert values["seconds_bucket", ("le", "1.0"), one] == 0
    assert values["seconds_sum", one] == 1.5
    assert values["alone", one] == 5
    assert ("alone", zero) not in values
