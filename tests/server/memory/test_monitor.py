"""The keeper: memory is tended without requests, trims wait their turn, trouble is told."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.support.memory_simulation import MIB, Simulation, one

from farpoint_server.memory import monitor as keeper
from farpoint_server.memory.monitor import Keeper
from farpoint_server.memory.oom import DeviceLost


class Engine:
    """A simulated card with no thread of its own."""

    def __init__(self) -> None:
        self.simulation = Simulation()
        self.memory = self.simulation.manager

    async def call(self, function: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return function()


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(keeper, "POLL_S", 0.005)
    engine, told = Engine(), []

    async def on_health(healthy: bool) -> None:
        told.append(healthy)

    world = SimpleNamespace(engine=engine, simulation=engine.simulation, told=told, waiting=0)
    world.keeper = Keeper([engine], lambda: world.waiting, on_health)
    return world


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


async def test_an_idle_server_is_trimmed_though_nobody_asks_for_anything(world):
    world.simulation.run(one("a", 900))
    world.keeper.start()
    world.simulation.clock.now += 31
    await until(lambda: world.simulation.trims("idle"))
    assert world.simulation.allocator.stats().reserved == 0
    await world.keeper.stop()


async def test_a_trim_that_is_asked_for_waits_for_the_queue_unless_forced(world):
    world.simulation.run(one("a", 900))
    world.waiting = 3
    asked = asyncio.ensure_future(world.keeper.trim(world.engine, force=False))
    await asyncio.sleep(0.1)
    assert not asked.done()
    _, returned = await world.keeper.trim(world.engine, force=True)
    assert returned == 900 * MIB
    world.waiting = 0
    assert (await asked)[1] == 0


async def test_health_follows_the_manager_and_returns_after_a_trim(world):
    world.keeper.start()
    for number in range(3):
        world.simulation.allocator.fail_at = {world.simulation.allocator.allocations + 1}
        world.simulation.run(one(str(number), 1))
    await until(lambda: world.told == [False])
    world.simulation.clock.now += 11
    await until(lambda: world.told == [False, True])
    await world.keeper.stop()


async def test_a_lost_device_is_told_once_and_for_good(world):
    def fail() -> None:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    world.keeper.start()
    world.simulation.meanwhile = fail
    with pytest.raises(DeviceLost):
        world.simulation.run(one("a", 1))
    await asyncio.wait_for(world.keeper.lost(), 30)
    assert world.told == [False]
    assert await world.keeper.trim(world.engine, force=False) is None
    await world.keeper.stop()
