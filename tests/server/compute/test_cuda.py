"""The engine of a GPU on a fake device: small batches on the event loop, memory, lost devices."""

import asyncio
import threading
from functools import partial

import numpy as np
import pytest
import torch
from tests.support.compute.fake_device import FakeDevice
from tests.support.compute.scheduling import WatchedWork, batch_of, clouds_of, until
from tests.support.memory.simulation import MIB, FakeAllocator

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import LOOP_NS, LOOP_POINTS, CudaEngine
from farpoint_server.compute.lane import Watchdog
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager, manager_of
from farpoint_server.compute.memory.policy import Thresholds
from farpoint_server.compute.memory.snapshot import Reason
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.transfer.queue import SLOTS, TransferQueue
from farpoint_server.errors import DeviceFailedError, EngineHungError, OverloadedError
from farpoint_server.kinds.sample import SampleWork, one_point

CPU = torch.device("cpu")
clouds = partial(clouds_of, np.random.default_rng(4))


@pytest.fixture
async def engine():
    engine = CpuEngine(1, manager_of(CPU, Gate()))
    await engine.start(SampleWork(one_point()))
    yield engine
    engine.close()


class OnDevice:
    """An engine whose transfers go to a fake device, and whose memory is a fake one."""

    def __init__(self, device: FakeDevice, total: int = 1 << 30, *, bounded: bool = False) -> None:
        self.device = device
        self.allocator = FakeAllocator(total)
        self.gate = Gate()
        self.memory = Manager(self.allocator, Thresholds(), self.gate, bounded=bounded)
        self.transfers = TransferQueue(device, self.memory.hold)
        self.engine = CudaEngine(CPU, 1, self.memory, transfers=self.transfers)


@pytest.fixture
async def on_device():
    made: list[OnDevice] = []

    def make(device: FakeDevice | None = None, **options: object) -> OnDevice:
        made.append(OnDevice(device or FakeDevice(), **options))
        return made[-1]

    yield make
    for each in made:
        each.engine.close()


@pytest.fixture(params=[None])
async def scheduled(on_device, request):
    """A device and its scheduler, whose engine may take as many seconds as the parameter says."""
    here = on_device(FakeDevice(hurry=0))
    scheduler = DeviceScheduler(here.engine, 1 << 20, Watchdog(request.param))
    scheduler.start()
    yield here, scheduler
    here.device.resume("compute")
    await until(lambda: not here.transfers.in_flight)
    await scheduler.stop()


class Thread:
    """The thread that stages each batch."""

    def __init__(self) -> None:
        self.seen: list[bool] = []
        self._own = threading.current_thread()

    def work(self, points: int) -> WatchedWork:
        return WatchedWork(clouds(points, per_sample=500), self)

    def __call__(self) -> None:
        self.seen.append(threading.current_thread() is self._own)


async def test_what_arrives_in_one_turn_of_the_loop_is_one_batch(scheduled):
    here, scheduler = scheduled
    works = [SampleWork(clouds(100 + i)) for i in range(40)]
    outcomes = await asyncio.gather(*(scheduler.run(work, 60) for work in works))
    assert here.device.log == ["upload", "compute", "download"]
    assert [len(outcome.result.rows) for outcome in outcomes] == [(100 + i) // 3 for i in range(40)]


async def test_a_small_batch_is_launched_on_the_loop_and_a_large_one_is_not(on_device):
    here, thread = on_device(), Thread()
    for points in (100, LOOP_POINTS, LOOP_POINTS + 1):
        await here.engine.submit(Batch([thread.work(points)]))
    assert thread.seen == [True, True, False]


async def test_a_batch_that_is_not_done_at_once_leaves_the_loop_free(scheduled):
    """The thread that completes batches answers it; those after it are not waited for."""
    here, scheduler = scheduled
    here.device.pause("compute")
    first = asyncio.ensure_future(scheduler.run(SampleWork(clouds(100)), None))
    await until(lambda: here.transfers.in_flight)
    second = asyncio.ensure_future(scheduler.run(SampleWork(clouds(200)), None))
    await until(lambda: here.transfers.in_flight == 2)
    assert not first.done()
    here.device.resume("compute")
    answers = await first, await second
    assert [len(outcome.result.rows) for outcome in answers] == [33, 66]


@pytest.mark.parametrize("scheduled", [0.05], indirect=True)
async def test_a_kernel_that_hangs_stops_its_callers_and_not_the_loop(scheduled):
    here, scheduler = scheduled
    here.device.pause("compute")
    with pytest.raises(EngineHungError):
        await scheduler.run(SampleWork(clouds(100)), None)
    with pytest.raises(EngineHungError):
        await scheduler.run(SampleWork(clouds(100)), None)
    here.device.resume("compute")
    await until(lambda: not here.transfers.in_flight)
    assert len((await scheduler.run(SampleWork(clouds(100)), None)).result.rows) == 33


async def test_while_every_slot_is_in_use_small_work_gathers(scheduled):
    here, scheduler = scheduled
    here.device.pause("compute")
    running = [asyncio.ensure_future(scheduler.run(SampleWork(clouds(50)), 60))]
    for in_flight in range(1, SLOTS + 1):
        await until(lambda: here.transfers.in_flight == in_flight)  # noqa: B023
        running.append(asyncio.ensure_future(scheduler.run(SampleWork(clouds(50)), 60)))
    running += [asyncio.ensure_future(scheduler.run(SampleWork(clouds(50)), 60)) for _ in range(9)]
    await until(lambda: scheduler.waiting_requests == 10)
    here.device.resume("compute")
    await asyncio.gather(*running)
    assert here.device.log.count("upload") == SLOTS + 1


async def test_what_fails_on_the_loop_is_tried_again_where_failures_are_understood(on_device):
    here, failures = on_device(), [MemoryError()]

    def fail() -> None:
        if failures:
            raise failures.pop()

    failing = Batch([WatchedWork(clouds(100), fail)])
    (answer,) = await here.engine.submit(failing)
    assert len(answer.rows) == 33
    failures += [ValueError("a bug")] * 2
    with pytest.raises(ValueError, match="a bug"):
        await here.engine.submit(failing)
    assert here.gate.readers == here.transfers.in_flight == 0


async def test_a_batch_is_waited_for_if_it_is_predicted_to_be_short(on_device):
    """Its answers are there before anything else can run."""
    here = on_device(FakeDevice(hurry=0))
    for per_sample, is_short in ((500, True), (1, False)):
        batch = batch_of(clouds(20_000, per_sample=per_sample))
        (launch,) = batch.launches([0])
        assert (launch.kernel.predicted_ns <= LOOP_NS) is is_short
        answers = here.engine.submit(batch)
        assert answers.done() is is_short
        await answers


async def test_nothing_is_trimmed_while_a_batch_is_on_its_way(on_device):
    here = on_device()
    here.device.pause("compute")
    running = asyncio.ensure_future(here.engine.submit(batch_of(clouds(100))))
    await until(lambda: here.transfers.in_flight)
    assert await here.engine.call(lambda: here.memory.trim_if_idle(0)) is None
    here.device.resume("compute")
    await running
    await until(lambda: not here.transfers.in_flight)
    assert here.device.pinned_sizes
    trim = await here.engine.call(lambda: here.memory.trim_if_idle(0))
    assert trim.reason is Reason.REQUEST
    assert not here.device.pinned_sizes, "pinned buffers are given back before the host is trimmed"


async def test_what_runs_out_of_memory_is_cut_and_answered_as_if_it_had_not(on_device, engine):
    """While another batch is on its way, too; the first request is cut into clouds."""
    requests = [clouds(900, 700, 800, with_distances=True), clouds(900), clouds(100, 600)]
    here = on_device(FakeDevice(most_bytes=1 << 15))
    answers = await asyncio.gather(*(here.engine.submit(batch_of(*requests)) for _ in range(2)))
    expected = await engine.submit(batch_of(*requests))
    for answer in answers:
        for got, wanted in zip(answer, expected, strict=True):
            np.testing.assert_array_equal(got.rows, wanted.rows)
            np.testing.assert_array_equal(got.distances, wanted.distances)
    assert here.memory.snapshot.oom_count == 2
    (refused,) = await here.engine.submit(batch_of(clouds(4000)))
    assert isinstance(refused, OverloadedError)


async def test_where_memory_is_scarce_one_batch_waits_for_the_other(on_device):
    """Predicted to fit alone and not with another, it is neither cut nor refused."""
    small, large = clouds(1000), clouds(100_000)
    here = on_device(total=48 * MIB, bounded=True)
    here.allocator.allocate(40 * MIB)
    here.device.pause("download")
    first = asyncio.ensure_future(here.engine.submit(batch_of(small)))
    await until(lambda: here.transfers.in_flight)
    second = asyncio.ensure_future(here.engine.submit(batch_of(large)))
    await asyncio.sleep(0.02)
    assert here.transfers.in_flight == 1
    here.device.resume("download")
    (answer,), (other,) = await second, await first
    assert (len(answer.rows), len(other.rows)) == (33_333, 333)


async def test_a_batch_that_all_gave_up_before_its_launch_is_not_launched(on_device):
    here = on_device(FakeDevice(hurry=1))
    batch = batch_of(clouds(100), clouds(100))
    batch.cancel(0)
    batch.cancel(1)
    await here.engine.submit(batch)
    assert here.device.log == []


async def test_a_device_that_fails_later_is_lost(on_device):
    here = on_device()

    def refuse(what: str) -> None:
        if what == "synchronize":
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    here.device.refuse = refuse
    for _ in range(2):
        with pytest.raises(DeviceFailedError):
            await here.engine.submit(batch_of(clouds(10)))
    assert here.memory.is_lost
    assert not here.memory.snapshot.healthy


async def test_a_caller_who_leaves_keeps_no_transfer_from_completing(on_device):
    here = on_device()
    here.device.pause("compute")
    tasks = [asyncio.ensure_future(here.engine.submit(batch_of(clouds(100)))) for _ in range(2)]
    await until(lambda: here.transfers.in_flight == 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    here.device.resume("compute")
    await until(lambda: not here.transfers.in_flight)
    assert len(await here.engine.submit(batch_of(clouds(100)))) == 1
