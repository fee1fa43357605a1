"""What a server reports of itself: health with its watchers, and load."""

import asyncio

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2
from tests.support.rpc import METHOD, CallContext, serving

from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.transport.grpc.health import NOT_SERVING, SERVICE_UNKNOWN, SERVING, Health
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.grpc.load_report import LOAD_KEY, PERIOD_S, LoadReport
from farpoint_server.transport.limits import InFlight


def ask(service: str = "") -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


async def status(health: Health, service: str = "") -> int:
    return (await health.Check(ask(service), CallContext())).status


async def test_every_watcher_sees_every_change_also_after_another_left():
    health = Health(["a"])
    first, second = health.Watch(ask("a"), None), health.Watch(ask("a"), None)
    assert (await anext(first)).status == NOT_SERVING
    assert (await anext(second)).status == NOT_SERVING
    await first.aclose()
    for is_serving in (True, False, True):
        next_status = asyncio.create_task(anext(second))
        await asyncio.sleep(0)
        health.set_all(serving=is_serving)
        expected = SERVING if is_serving else NOT_SERVING
        assert (await asyncio.wait_for(next_status, 30)).status == expected


async def test_all_are_serving_once_set_and_while_no_source_reports_trouble():
    health = Health(["a"])
    assert [await status(health), await status(health, "a")] == [NOT_SERVING] * 2
    assert not health.is_serving
    health.report("engines", healthy=True)
    assert await status(health) == NOT_SERVING
    health.set_all(serving=True)
    assert [await status(health), await status(health, "a")] == [SERVING] * 2
    assert health.is_serving
    for source in ("engines", "memory"):
        health.report(source, healthy=False)
        assert not health.is_serving
    health.report("engines", healthy=True)
    assert not health.is_serving
    health.report("memory", healthy=True)
    assert health.is_serving
    health.set_all(serving=False)
    assert not health.is_serving


async def test_a_new_service_is_as_healthy_as_the_others_until_it_is_removed():
    health = Health([])
    health.set_all(serving=True)
    watch = health.Watch(ask("late"), None)
    assert (await anext(watch)).status == SERVICE_UNKNOWN
    health.know("late")
    health.know("late")
    assert (health.knows("late"), await status(health, "late")) == (True, SERVING)
    assert (await anext(watch)).status == SERVING
    health.forget("late")
    health.forget("late")
    assert not health.knows("late")
    assert (await anext(watch)).status == SERVICE_UNKNOWN


# Of xds/data/orca/v3/orca_load_report.proto, as published.
FIELDS = {"cpu_utilization": 1, "rps_fractional": 6, "eps": 7, "application_utilization": 9}


def orca(packed: bytes) -> dict[str, float]:
    """Read by protobuf from a description of its own."""
    file = descriptor_pb2.FileDescriptorProto(name="orca.proto", syntax="proto3")
    message = file.message_type.add(name="OrcaLoadReport")
    kind = descriptor_pb2.FieldDescriptorProto
    for name, number in FIELDS.items():
        label = kind.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind.TYPE_DOUBLE, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    report = message_factory.GetMessageClass(pool.FindMessageTypeByName("OrcaLoadReport"))()
    report.ParseFromString(packed)
    return {field.name: value for field, value in report.ListFields()}


class Machine:
    """Two cores and an engine, whose clocks a test sets."""

    def __init__(self) -> None:
        self.now = self.cpu = self.busy = 0.0
        self.load = LoadReport(lambda: self.busy, 2, lambda: self.now, lambda: self.cpu)

    def calls(self, count: int, seconds: float = PERIOD_S) -> dict[str, float]:
        """As many calls over some seconds, the last one at their end; its trailers."""
        for _ in range(count - 1):
            self.load.count()
        self.now += seconds
        ((key, packed),) = self.load.count()
        assert key == LOAD_KEY
        return orca(packed)


def test_calls_and_the_share_of_the_cores_in_use():
    machine = Machine()
    machine.cpu = 0.3
    load = machine.calls(50)
    assert load["rps_fractional"] == pytest.approx(50 / PERIOD_S)
    assert load["application_utilization"] == pytest.approx(0.3 / 2 / PERIOD_S)
    assert "eps" not in load


def test_engines_count_where_they_are_busier_than_the_cores():
    machine = Machine()
    machine.cpu, machine.busy = 0.1, 0.45
    assert machine.calls(1)["application_utilization"] == pytest.approx(0.45 / PERIOD_S)


@pytest.mark.parametrize(
    ("error", "errors"),
    [(None, 0), (OverloadedError("full", retry_ms=5), 2), (InvalidRequestError("m", "x", "y"), 0)],
    ids=["answered", "refused", "wrong"],
)
async def test_answers_and_refusals_carry_it_and_only_what_the_server_failed_counts(error, errors):
    machine, contexts = Machine(), []

    async def behave(request, context):
        contexts.append(context)
        if error is not None:
            raise error
        return request

    interceptor = RequestInterceptor(InFlight(), load=machine.load)
    async with serving(behave, interceptor) as channel:
        for machine.now in (0.2, 0.4, 1.0, 1.1):
            await channel.unary_unary(METHOD)(b"hello").code()
    # gRPC's clients keep the trailer to themselves.
    first, *_, due, last = [dict(context.trailing_metadata()).get(LOAD_KEY) for context in contexts]
    assert first is None
    assert last is due
    load = orca(due)
    assert load["rps_fractional"] == 3.0
    assert load.get("eps", 0) == errors
