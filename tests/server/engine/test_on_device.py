"""The engine with a GPU, here a fake one: two batches at a time, and memory as before."""

import asyncio
from functools import partial

import numpy as np
import pytest
import torch
from tests.support.fake_device import FakeDevice
from tests.support.memory.fake_allocator import MIB, FakeAllocator
from tests.support.scheduling import clouds_of, until

from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.engine.transfer.cuda import DeviceStream
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.errors import DeviceFailedError, OverloadedError
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.policy import Thresholds
from farpoint_server.memory.snapshot import Reason

RANDOM = np.random.default_rng(11)
clouds = partial(clouds_of, RANDOM)
CPU = torch.device("cpu")


class OnDevice:
    """An engine whose pipeline leads to a fake device, and whose memory is a fake one."""

    def __init__(self, device: FakeDevice, total: int = 1 << 30, *, bounded: bool = False) -> None:
        self.device = device
        self.allocator = FakeAllocator(total)
        self.memory = Manager(self.allocator, Thresholds(), Gate(), bounded=bounded)
        self.pipeline = Pipeline(device, self.memory.hold)
        self.engine = Engine(CPU, 1, self.memory, self.pipeline)


@pytest.fixture
async def on_device():
    """Makes such engines."""
    made: list[OnDevice] = []

    def make(device: FakeDevice | None = None, **options: object) -> OnDevice:
        made.append(OnDevice(device or FakeDevice(), **options))
        return made[-1]

    yield make
    for each in made:
        each.engine.stop()


@pytest.fixture
async def on_cpu():
    engine = Engine(CPU, 1)
    await engine.start()
    yield engine
    engine.stop()


def assert_same(got, expected) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        assert (a.distances is None) == (b.distances is None)
        if b.distances is not None:
            np.testing.assert_array_equal(a.distances, b.distances)


async def test_nothing_is_trimmed_while_a_batch_is_on_its_way(on_device):
    here = on_device()
    here.device.pause(DeviceStream.COMPUTE)
    running = asyncio.create_task(here.engine.run(SampleBatch([clouds(100)])))
    await until(lambda: here.pipeline.in_flight)
    assert await here.engine.call(lambda: here.memory.trim_if_idle(0)) is None
    here.device.resume(DeviceStream.COMPUTE)
    await running
    await until(lambda: not here.pipeline.in_flight)
    assert here.device.pinned_sizes
    trim = await here.engine.call(lambda: here.memory.trim_if_idle(0))
    assert trim.reason is Reason.REQUEST
    assert not here.device.pinned_sizes, "pinned buffers are given back before the host is trimmed"


async def test_a_forced_trim_waits_for_what_is_on_its_way(on_device):
    here = on_device()
    here.device.pause(DeviceStream.DOWNLOAD)
    running = asyncio.create_task(here.engine.run(SampleBatch([clouds(100)])))
    await until(lambda: here.pipeline.in_flight)
    trimming = asyncio.ensure_future(here.engine.call(here.memory.trim))
    await asyncio.sleep(0.02)
    assert not trimming.done()
    here.device.resume(DeviceStream.DOWNLOAD)
    assert (await trimming).reason is Reason.REQUEST
    await running


async def test_what_runs_out_of_memory_is_cut_and_answered_as_if_it_had_not(on_device, on_cpu):
    """While another batch is on its way, too; the first request is cut into clouds."""
    requests = [clouds(70, 50, 60, with_distances=True), clouds(90), clouds(10, 60)]
    here = on_device(FakeDevice(most_bytes=2048))
    answers = await asyncio.gather(*(here.engine.run(SampleBatch(requests)) for _ in range(2)))
    expected = await on_cpu.run(SampleBatch(requests))
    for answer in answers:
        assert_same(answer, expected)
    assert here.memory.snapshot.oom_count == 2
    (refused,) = await here.engine.run(SampleBatch([clouds(400)]))
    assert isinstance(refused, OverloadedError)
    assert not here.device.races


async def test_where_memory_is_scarce_one_batch_waits_for_the_other(on_device):
    """Predicted to fit alone and not with another, it is neither cut nor refused."""
    small, large = clouds(1000), clouds(100_000)
    here = on_device(total=48 * MIB, bounded=True)
    here.allocator.allocate(40 * MIB)
    here.device.pause(DeviceStream.DOWNLOAD)
    first = asyncio.create_task(here.engine.run(SampleBatch([small])))
    await until(lambda: here.pipeline.in_flight)
    second = asyncio.create_task(here.engine.run(SampleBatch([large])))
    await asyncio.sleep(0.02)
    assert here.pipeline.in_flight == 1
    here.device.resume(DeviceStream.DOWNLOAD)
    (answer,), (other,) = await second, await first
    assert (len(answer.rows), len(other.rows)) == (33_333, 333)


async def test_a_batch_that_all_gave_up_before_its_launch_is_not_launched(on_device):
    here = on_device(FakeDevice(hurry=1))
    batch = SampleBatch([clouds(100), clouds(100)])
    batch.cancel(0)
    batch.cancel(1)
    await here.engine.run(batch)
    assert here.device.log == ["upload"]


async def test_a_device_that_fails_later_is_lost(on_device):
    here = on_device()

    def refuse(what: str) -> None:
        if what == "synchronize":
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    here.device.refuse = refuse
    for _ in range(2):
        with pytest.raises(DeviceFailedError):
            await here.engine.run(SampleBatch([clouds(10)]))
    assert here.memory.is_lost
    assert not here.memory.snapshot.healthy


async def test_a_caller_who_leaves_keeps_no_transfer_from_completing(on_device):
    here = on_device()
    here.device.pause(DeviceStream.COMPUTE)
    tasks = [asyncio.create_task(here.engine.run(SampleBatch([clouds(100)]))) for _ in range(2)]
    await until(lambda: here.pipeline.in_flight == 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    here.device.resume(DeviceStream.COMPUTE)
    await until(lambda: not here.pipeline.in_flight)
    assert len(await here.engine.run(SampleBatch([clouds(100)]))) == 1
