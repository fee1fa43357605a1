"""Watchers of the server's health."""

import asyncio
import gc

from grpc_health.v1 import health_pb2

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


async def test_an_unknown_service_can_be_watched():
    watch = Health([]).Watch(health_pb2.HealthCheckRequest(service="later"), None)
    assert (await anext(watch)).status == SERVICE_UNKNOWN


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
