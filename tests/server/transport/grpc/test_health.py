"""Health of a server and its services, with its watchers."""

import asyncio

from grpc_health.v1 import health_pb2
from tests.support.rpc import CallContext

from farpoint_server.transport.grpc.health import NOT_SERVING, SERVICE_UNKNOWN, SERVING, Health


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
