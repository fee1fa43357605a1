"""An engine with a background engine: priorities of their threads, one memory, trims."""

import asyncio
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch
from tests.support.fake_device import FakeDevice
from tests.support.memory.fake_allocator import FakeAllocator
from tests.support.scheduling import clouds_of

from farpoint_server.engine import sample
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleBatch, SampleWork
from farpoint_server.engine.thread import NICENESS, background_threads
from farpoint_server.engine.transfer.device import DeviceStream
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import Manager, manager_of
from farpoint_server.memory.policy import Options, Thresholds

CPU = torch.device("cpu")
clouds = partial(clouds_of, np.random.default_rng(4))
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="niceness is per thread on Linux")


class Pair:
    """An engine and its background engine, with one memory manager."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.memory = manager_of(CPU, Options(), self.gate)
        self.long = Engine(CPU, 1, self.memory, is_background=True)
        self.short = Engine(CPU, 1, self.memory, background=self.long)


@pytest.fixture
async def pair():
    pair = Pair()
    await pair.short.start()
    yield pair
    pair.short.stop()


@pytest.fixture
def launches(monkeypatch):
    """Each launch in the background waits until it is let go; says which began."""
    begun, go = threading.Event(), threading.Event()
    launch = sample.launch

    def watched(requests, cancelled):
        if threading.current_thread().name.endswith("-background"):
            begun.set()
            assert go.wait(30)
        return launch(requests, cancelled)

    monkeypatch.setattr(sample, "launch", watched)
    yield begun, go
    go.set()


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@on_linux
async def test_long_work_runs_at_a_lower_priority_and_what_it_starts_too(pair):
    inherited: list[int] = []

    def start_thread() -> int:
        thread = threading.Thread(target=lambda: inherited.append(niceness()))
        thread.start()
        thread.join()
        return niceness()

    lower = min(19, niceness() + NICENESS)
    assert await pair.short.call(niceness) == niceness()
    assert await pair.long.call(start_thread) == lower
    assert inherited == [lower]


@pytest.mark.parametrize(("lowers", "threads", "expected"), [(True, 8, 8), (False, 8, 4)])
def test_without_a_lower_priority_long_work_gets_half_of_the_cores(
    monkeypatch, lowers, threads, expected
):
    monkeypatch.setattr("farpoint_server.engine.thread.can_lower_priority", lambda: lowers)
    assert background_threads(threads) == expected
    assert background_threads(1) == 1


async def test_nothing_is_run_inline_in_the_background(pair):
    assert pair.long.run_inline_if_idle(SampleWork(clouds(10))) is None
    assert pair.short.run_inline_if_idle(SampleWork(clouds(10))) is not None


async def test_short_work_runs_while_long_work_does_and_both_are_right(pair, launches):
    begun, go = launches
    batch = SampleBatch([clouds(500, 300, with_distances=True)])
    long = asyncio.ensure_future(pair.long.run(batch))
    await asyncio.to_thread(begun.wait, 30)
    (short,) = await pair.short.run(batch)
    inline = pair.short.run_inline_if_idle(SampleWork(clouds(10)))
    assert inline is not None
    assert not long.done()
    go.set()
    (late,) = await long
    np.testing.assert_array_equal(short.rows, late.rows)
    np.testing.assert_array_equal(short.distances, late.distances)


async def test_no_trim_begins_while_long_work_runs(pair, launches):
    begun, go = launches
    long = asyncio.ensure_future(pair.long.run(SampleBatch([clouds(100)])))
    await asyncio.to_thread(begun.wait, 30)
    assert await pair.short.call(lambda: pair.memory.trim_if_idle(0)) is None
    go.set()
    await long
    assert await pair.short.call(lambda: pair.memory.trim_if_idle(0)) is not None


async def test_a_forced_trim_waits_for_long_work_and_holds_no_short_work_back(pair, launches):
    begun, go = launches
    long = asyncio.ensure_future(pair.long.run(SampleBatch([clouds(100)])))
    await asyncio.to_thread(begun.wait, 30)
    trim = asyncio.ensure_future(pair.short.call_behind_long_work(pair.memory.trim))
    for _ in range(3):
        assert len(await pair.short.run(SampleBatch([clouds(100)]))) == 1
    assert not trim.done()
    go.set()
    assert await trim is not None
    await long


async def test_on_a_gpu_short_work_passes_long_work_on_a_stream_of_its_own():
    """Two pipelines to a device, the long one's kernels held up."""
    gate = Gate()
    memory = Manager(FakeAllocator(1 << 30), Thresholds(), gate)
    devices = [FakeDevice(seed) for seed in (1, 2)]
    pipelines = [Pipeline(device, memory.hold) for device in devices]
    background = Engine(CPU, 1, memory, pipelines[0], is_background=True)
    engine = Engine(CPU, 1, memory, pipelines[1], background)
    devices[0].pause(DeviceStream.COMPUTE)
    batch = SampleBatch([clouds(300), clouds(200)])
    long = asyncio.ensure_future(background.run(batch))
    short = await asyncio.wait_for(engine.run(batch), 30)
    while not pipelines[0].in_flight:  # the other engine's thread may be slow to begin
        await asyncio.sleep(0.001)
    assert not long.done()
    assert await engine.call(lambda: memory.trim_if_idle(0)) is None
    devices[0].resume(DeviceStream.COMPUTE)
    for one, other in zip(short, await long, strict=True):
        np.testing.assert_array_equal(one.rows, other.rows)
    engine.stop()
    assert not devices[0].races + devices[1].races


async def test_a_batch_alone_has_all_cores_and_two_share_them(monkeypatch):
    threads: list[int] = []
    began, go = asyncio.Event(), threading.Event()
    loop, launch = asyncio.get_running_loop(), sample.launch

    def watched(requests, cancelled):
        threads.append(torch.get_num_threads())
        if len(threads) == 1:
            loop.call_soon_threadsafe(began.set)
            assert go.wait(30)
        return launch(requests, cancelled)

    engine = Engine(CPU, 4, at_once=2)
    monkeypatch.setattr(sample, "launch", watched)
    first = engine.run(SampleBatch([clouds(10)]))
    await began.wait()
    await engine.run(SampleBatch([clouds(10)]))
    go.set()
    await first
    await engine.run(SampleBatch([clouds(10)]))
    assert threads == [4, 2, 4]
    engine.stop()
