"""Watchers of the server's health."""

import asyncio
import gc

import pytest
from grpc_health.v1 import health_pb2
from tests.support.rpc import AbortError, CallContext

from farpoint_server.transport.health import NOT_SERVING, SERVICE_UNKNOWN, SERVING, Health


async def test_every_watcher_sees_every_change_also_after_another_left():
    health = Health(["a"])
    ask = health_pb2.HealthCheckRequest(service="a")
    first, second = health.Watch(ask, None), health.Watch(ask, None)
    assert (await anext(first)).status == NOT_SERVING
    assert (await anext(second)).status == NOT_SERVING
    await first.aclose()
    next_status = asyncio.create_task(anext(second))
    await asyncio.sleep(0)
    await health.set_all(serving=True)
    assert (await asyncio.wait_for(next_status, 30)).status == SERVING


async def test_reports_of_those_who_cannot_wait_are_all_heard():
    health = Health([])
    await health.set_all(serving=True)
    health.report_soon("engines", healthy=False)
    health.report_soon("memory", healthy=False)
    health.report_soon("engines", healthy=True)
    gc.collect()
    watch = health.Watch(health_pb2.HealthCheckRequest(), None)
    while (await anext(watch)).status != NOT_SERVING:
        pass
    health.report_soon("memory", healthy=True)
    assert (await asyncio.wait_for(anext(watch), 30)).status == SERVING


def ask(service: str = "") -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


async def status(health: Health, service: str = "") -> int:
    return (await health.Check(ask(service), CallContext())).status


async def test_a_service_that_nobody_knows_is_not_found():
    context = CallContext()
    with pytest.raises(AbortError):
        await Health(["a"]).Check(ask("b"), context)
    assert context.aborted[:2] == ("NOT_FOUND", "no service 'b'")


async def test_all_are_serving_once_they_are_said_to_and_no_source_has_trouble():
    health = Health(["a"])
    assert [await status(health), await status(health, "a")] == [NOT_SERVING] * 2
    assert not health.is_serving
    await health.report("engines", healthy=True)
    assert await status(health) == NOT_SERVING
    await health.set_all(serving=True)
    assert [await status(health), await status(health, "a")] == [SERVING] * 2
    assert health.is_serving
    for source in ("engines", "memory"):
        await health.report(source, healthy=False)
        assert not health.is_serving
    await health.report("engines", healthy=True)
    assert not health.is_serving
    await health.report("memory", healthy=True)
    assert health.is_serving
    await health.set_all(serving=False)
    assert not health.is_serving


async def test_a_service_that_is_learned_of_is_as_healthy_as_the_others_until_it_is_forgotten():
    health = Health([])
    await health.set_all(serving=True)
    watch = health.Watch(ask("late"), None)
    assert (await anext(watch)).status == SERVICE_UNKNOWN
    await health.know("late")
    await health.know("late")
    assert (health.knows("late"), await status(health, "late")) == (True, SERVING)
    assert (await anext(watch)).status == SERVING
    await health.forget("late")
    await health.forget("late")
    assert not health.knows("late")
    assert (await anext(watch)).status == SERVICE_UNKNOWN


async def test_a_status_that_stays_is_not_sent_again():
    health = Health([])
    watch = health.Watch(ask(), None)
    assert (await anext(watch)).status == NOT_SERVING
    again = asyncio.create_task(anext(watch))
    await health.set_all(serving=False)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not again.done()
    await health.set_all(serving=True)
    assert (await asyncio.wait_for(again, 30)).status == SERVING
