"""Memory is polled without requests, trims wait their turn, and what goes wrong is not silent."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.support.compute.scheduling import until
from tests.support.memory.simulation import MIB, Simulation, one

from farpoint_server.compute.memory.oom import DeviceLost
from farpoint_server.compute.monitor import MemoryMonitor

POLL_S = 0.005


class Engine:
    """A simulated GPU with no thread of its own; the first calls to it raise `errors`."""

    def __init__(self) -> None:
        self.simulation = Simulation()
        self.memory = self.simulation.manager
        self.errors: list[Exception] = []
        self.calls = 0

    async def call(self, function: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return function()


@pytest.fixture
async def world():
    engine = Engine()
    world = SimpleNamespace(
        engine=engine, simulation=engine.simulation, published=[], reported=[], waiting=0
    )

    world.on_health = world.published.append

    def report(event: str, **fields: object) -> None:
        world.reported.append({"event": event, **fields})

    world.monitor = MemoryMonitor(
        [engine], lambda: world.waiting, lambda healthy: world.on_health(healthy), report, POLL_S
    )
    yield world
    await world.monitor.stop()


async def test_an_idle_server_is_trimmed_without_any_request(world):
    world.simulation.run(one("a", 900))
    world.monitor.start()
    world.simulation.clock.now += 31
    await until(lambda: world.simulation.trims("idle"))
    assert world.simulation.allocator.stats().reserved == 0


async def test_a_trim_that_is_asked_for_waits_for_the_queue_unless_forced(world):
    world.simulation.run(one("a", 900))
    world.waiting = 3
    asked = asyncio.ensure_future(world.monitor.trim(world.engine, force=False))
    await until(lambda: world.engine.calls == 3)
    assert not asked.done()
    _, returned = await world.monitor.trim(world.engine, force=True)
    assert returned == 900 * MIB
    world.waiting = 0
    assert (await asked)[1] == 0


async def test_health_follows_the_manager_and_returns_after_a_trim(world):
    world.monitor.start()
    for number in range(3):
        world.simulation.allocator.fail_at = {world.simulation.allocator.allocations + 1}
        world.simulation.run(one(str(number), 1))
    await until(lambda: world.published == [False])
    world.simulation.clock.now += 11
    await until(lambda: world.published == [False, True])
    assert world.reported == []


async def test_a_lost_device_is_published_once_and_for_good(world):
    def fail() -> None:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    world.monitor.start()
    world.simulation.meanwhile = fail
    with pytest.raises(DeviceLost):
        world.simulation.run(one("a", 1))
    await asyncio.wait_for(world.monitor.lost(), 30)
    assert world.published == [False]
    assert await world.monitor.trim(world.engine, force=False) is None


async def test_polls_that_fail_are_reported_once_in_a_row_and_change_nothing(world):
    world.engine.errors = [RuntimeError(f"bug {number}") for number in range(9)]
    world.monitor.start()
    taken = world.engine.memory.snapshot
    await until(lambda: world.engine.memory.snapshot is not taken)
    assert [each["event"] for each in world.reported] == ["memory poll failed"]
    world.engine.errors = [RuntimeError("again")]
    await until(lambda: len(world.reported) == 2)
    assert (world.published, world.engine.memory.is_lost) == ([], False)


async def test_a_server_is_lost_only_with_its_last_device():
    engines = [Engine(), Engine()]
    published = []
    both = MemoryMonitor(engines, lambda: 0, published.append, poll_s=POLL_S)
    both.start()
    lost = asyncio.ensure_future(both.lost())
    engines[0].errors.append(torch.AcceleratorError("CUDA error: gone"))
    await until(lambda: engines[0].memory.is_lost)
    calls = engines[1].calls
    await until(lambda: engines[1].calls > calls + 3)
    assert (lost.done(), published) == (False, [])
    engines[1].errors.append(torch.AcceleratorError("CUDA error: gone"))
    await asyncio.wait_for(lost, 30)
    assert published == [False]
    await both.stop()


async def test_memory_is_polled_once_in_each_pause_and_not_all_the_time(world):
    world.monitor = MemoryMonitor([world.engine], lambda: 0, print, poll_s=3600)
    world.monitor.start()
    await until(lambda: world.engine.calls)
    for _ in range(100):
        await asyncio.sleep(0)
    assert world.engine.calls == 1
    await world.monitor.stop()
