"""Processes that are killed at random times: nothing is lost, doubled or wrong."""

import asyncio
import random
import signal
import sys

import numpy as np
import pytest
from tests.support.compute.remote import EngineOf, front_end
from tests.support.compute.remote_process import BitsCompute, call
from tests.support.compute.scheduling import until
from tests.support.servers.forked import ForkedProcess

from farpoint_server.errors import DeviceFailedError

PROGRAM = "tests.support.compute.remote_process"
rounds = pytest.mark.parametrize(
    "rounds", [5, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)


def start(*arguments: object) -> ForkedProcess:
    return ForkedProcess([sys.executable, "-m", PROGRAM, *map(str, arguments)])


def kill(process: ForkedProcess) -> None:
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    process.stderr.close()


@rounds
async def test_front_ends_that_are_killed_take_their_own_calls_alone(tmp_path, rounds):
    compute, choices = BitsCompute(), random.Random(1)
    engine = EngineOf(tmp_path / "engine", compute)
    answered = 0

    async def staying(remote, seed: int) -> None:
        nonlocal answered
        own = np.random.default_rng(seed)
        while True:
            await call(remote, own)
            answered += 1

    async with front_end(engine.path) as remote:
        callers = [asyncio.ensure_future(staying(remote, seed)) for seed in range(3)]
        for _ in range(rounds):
            before = answered
            process = await asyncio.to_thread(start, "front-end", engine.path, 1)
            await until(lambda: len(engine.server._front_ends) == 2)
            await asyncio.sleep(choices.random() * 0.1)
            await asyncio.to_thread(kill, process)
            await until(lambda: len(engine.server._front_ends) == 1)
            await until(lambda: answered > before + 10)  # noqa: B023
        for caller in callers:
            assert not caller.done()
            caller.cancel()
        await until(lambda: not compute.running)
        await until(lambda: remote._engine.region.take(1 << 26) is not None)
    engine.server.stop()


@rounds
async def test_engines_that_are_killed_fail_what_they_held_and_nothing_else(tmp_path, rounds):
    path, choices = tmp_path / "engine", random.Random(2)
    process = await asyncio.to_thread(start, "engine", path)
    counts = {"sent": 0, "answered": 0, "failed": 0}

    async def caller(remote, seed: int) -> None:
        own = np.random.default_rng(seed)
        while not ended.is_set():
            counts["sent"] += 1
            try:
                await asyncio.wait_for(call(remote, own), 30)
                counts["answered"] += 1
            except DeviceFailedError:
                counts["failed"] += 1
                await asyncio.sleep(0.002)

    ended, health = asyncio.Event(), []
    async with front_end(path, report_health=lambda *report: health.append(report)) as remote:
        callers = [asyncio.ensure_future(caller(remote, seed)) for seed in range(8)]
        for _ in range(rounds):
            before = counts["answered"]
            await until(lambda: counts["answered"] > before + 10)  # noqa: B023
            await asyncio.sleep(choices.random() * 0.05)
            await asyncio.to_thread(kill, process)
            await until(lambda: health[-1] == ("engine", False))
            process = await asyncio.to_thread(start, "engine", path)
        await until(lambda: health[-1] == ("engine", True))
        ended.set()
        await asyncio.gather(*callers)
    assert counts["sent"] == counts["answered"] + counts["failed"]
    assert counts["answered"] > 10 * rounds
    kill(process)
