"""Several devices: where a request goes, and where it goes when that device cannot do it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import inf

import numpy as np
import pytest
import torch
from tests.support.compute.scheduling import MS, Clock, GatedEngine, settle
from tests.support.memory.simulation import FakeAllocator

from farpoint_server.compute.compute import Compute
from farpoint_server.compute.cost import CostModel
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.lane import Watchdog
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.policy import Thresholds
from farpoint_server.compute.placement import PROBE, Placement
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.errors import (
    DeadlinePassedError,
    DeviceFailedError,
    OverloadedError,
    TooLargeError,
)
from farpoint_server.kinds.sample import Clouds, SampleWork


def clouds(number: int, points: int, samples: int) -> SampleWork:
    """Of `number` clouds each, on a CPU 15 ns a point and 200 ns a sample."""
    each = np.ones(number, np.int64)
    flat = np.zeros((number * points, 3), np.float32)
    return SampleWork(Clouds(flat, points * each, samples * each, each - 1))


ONE = clouds(1, 10_000, 1000)
MANY = clouds(64, 1000, 1000)


class Refusing(GatedEngine):
    """Answers each request with `refusal`, or raises it."""

    refusal: Exception | None = None

    gates: Sequence[asyncio.Event] = ()
    """Of its own, for the first batches."""

    async def submit(self, batch):
        if len(self.batches) < len(self.gates):
            self.gate = self.gates[len(self.batches)]
        answers = await super().submit(batch)
        if isinstance(self.refusal, DeviceFailedError):
            raise self.refusal
        return answers if self.refusal is None else [self.refusal] * len(answers)


class Devices:
    """A CPU and two GPUs that wait for their gates."""

    def __init__(
        self, limit_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.engines = [Refusing() for _ in range(3)]
        for engine in self.engines[1:]:
            engine.device_type = "cuda"
        self.watchdogs = [Watchdog(limit_s) for _ in self.engines]
        self.schedulers = [
            DeviceScheduler(engine, 1 << 20, watchdog, clock=clock)
            for engine, watchdog in zip(self.engines, self.watchdogs, strict=True)
        ]
        self.placement = Placement(self.schedulers)
        for scheduler in self.schedulers:
            scheduler.start()

    async def stop(self) -> None:
        for scheduler in self.schedulers:
            await scheduler.stop()

    async def submit(self, work, timeout_s: float | None = None) -> asyncio.Task:
        task = asyncio.create_task(self.placement.run(work, timeout_s))
        await settle()
        return task

    @property
    def given(self) -> list[int]:
        """Batches that each engine was given."""
        return [len(engine.batches) for engine in self.engines]

    def open(self, *which: int) -> None:
        for index in which:
            self.engines[index].gate.set()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def devices(clock):
    devices = Devices(clock=clock)
    yield devices
    await devices.stop()


async def test_one_cloud_goes_to_the_cpu_and_many_to_a_gpu(devices):
    await devices.submit(ONE)
    assert devices.given == [1, 0, 0]
    await devices.submit(MANY)
    assert devices.given == [1, 1, 0]


async def test_what_waits_there_counts(devices):
    """350 µs on the CPU, 1350 on a GPU: four on the CPU take 1400, so the fourth goes to a GPU."""
    for expected in ([1, 0, 0], [2, 0, 0], [3, 0, 0], [3, 1, 0], [3, 1, 1]):
        await devices.submit(ONE)
        waiting = [scheduler.waiting_requests for scheduler in devices.schedulers]
        assert [sum(each) for each in zip(devices.given, waiting, strict=True)] == expected


async def test_a_device_that_turns_out_slower_gets_less(devices):
    costs = devices.schedulers[0].costs
    for _ in range(9):
        costs.observe([clouds(1, 200_000, 1000)], 100 * MS)
    await devices.submit(clouds(1, 200_000, 1000))
    assert devices.given == [0, 1, 0]
    # Of another size nothing is known.
    await devices.submit(ONE)
    assert devices.given == [1, 1, 0]


async def test_a_device_that_was_slower_once_is_measured_anew(devices):
    """Its predictions, of a time when others used it, would never be corrected: it gets nothing."""
    devices.open(0, 1, 2)
    for each in devices.schedulers[1:]:
        each.costs.observe([ONE], 2 * MS)
    for _ in range(PROBE):
        await (await devices.submit(ONE))
    assert devices.given == [PROBE - 1, 1, 0]
    assert devices.schedulers[1].costs.predict_ns(ONE) < 2 * MS
    # One that is predicted to take far longer gets none.
    devices.schedulers[2].costs.observe([ONE], 20 * MS)
    await (await devices.submit(ONE))
    assert devices.given[2] == 0


def test_the_launch_of_small_work_on_a_gpu_is_learned_and_of_a_cpu_the_work_alone():
    """The estimate for a GPU has the way to it and back; that for a CPU has the kernel's time."""
    for device_type, expected in (("cuda", 0.25), ("cpu", 1)):
        costs = CostModel(device_type)
        before = costs.predict_alone_ns(ONE)
        costs.observe([ONE], before / 4)
        assert costs.predict_alone_ns(ONE) == pytest.approx(expected * before, rel=0.01)


async def test_batches_of_a_gpu_that_overlap_take_the_time_between_their_ends(clock):
    """Two that begin together and end after 3 and 4 ms: 3 and 1."""
    engine = Refusing()
    engine.device_type, engine.depth = "cuda", 4
    scheduler = DeviceScheduler(engine, 1, clock=clock)
    scheduler.start()
    gates = engine.gates = [asyncio.Event(), asyncio.Event()]
    tasks = [asyncio.create_task(scheduler.run(ONE, None)) for _ in gates]
    await settle()
    assert engine.batches == [[10_000], [10_000]]
    estimate = scheduler.costs.predict_ns(ONE)
    assert scheduler.wait_ns == pytest.approx(2 * estimate, abs=2)
    for gate, task, s in zip(gates, tasks, (3e-3, 4e-3), strict=True):
        clock.s = s
        gate.set()
        await task
    assert scheduler.costs.predict_ns(ONE) == pytest.approx(1.9 * MS, rel=0.06)
    assert scheduler.costs.predict_alone_ns(ONE) == pytest.approx(3.5 * MS, rel=0.06)
    assert scheduler.wait_ns == 0
    await scheduler.stop()


async def test_large_batches_of_a_gpu_do_not_change_the_prediction_of_one_request():
    costs = CostModel("cuda")
    before = costs.predict_alone_ns(ONE)
    for _ in range(9):
        costs.observe([ONE] * 100, 10 * MS)
    assert costs.predict_alone_ns(ONE) == before
    assert costs.predict_ns(ONE) < before / 4
    for _ in range(9):
        costs.observe([clouds(1, 10_000, 8000)], 20 * MS)
    assert costs.predict_alone_ns(clouds(1, 10_000, 8000)) == pytest.approx(20 * MS, rel=0.01)


async def test_what_runs_and_waits_at_a_device_that_hangs_moves_to_others():
    devices = Devices(limit_s=0.05)
    devices.open(1, 2)
    running, waiting = await devices.submit(ONE), await devices.submit(ONE)
    assert devices.given[0] == 1
    for task in (running, waiting):
        assert (await asyncio.wait_for(task, 30)).result.rows[0] == 10_000
    assert devices.given[0] == 1
    assert sum(devices.given[1:]) == 2
    # As long as it hangs nothing comes to it.
    await (await devices.submit(ONE))
    assert devices.given[0] == 1
    assert devices.schedulers[0].completion_ns(ONE) == inf
    devices.open(0)
    while any(devices.watchdogs[0].late):
        await asyncio.sleep(0.001)
    assert devices.schedulers[0].completion_ns(ONE) < MS
    await devices.stop()


async def test_a_batch_that_is_late_keeps_others_away_before_it_counts_as_hung(devices, clock):
    """350 µs were predicted. After 300 there are 50 to come; after 1800 as many as it is late."""
    await devices.submit(ONE)
    clock.s = 300e-6
    assert devices.schedulers[0].wait_ns == pytest.approx(50_000, rel=0.01)
    clock.s = 1800e-6
    assert devices.schedulers[0].wait_ns == pytest.approx(1_450_000, rel=0.01)
    await devices.submit(ONE)
    assert devices.given == [1, 1, 0]


async def test_a_device_that_failed_gets_nothing_more(devices):
    devices.engines[0].refusal = DeviceFailedError("gone")
    devices.open(0, 1, 2)
    for expected in ([1, 1, 0], [1, 2, 0]):
        await (await devices.submit(ONE))
        assert devices.given == expected


@pytest.mark.parametrize("refusal", [TooLargeError("8 GiB"), OverloadedError("no room", 9)])
async def test_what_one_device_has_no_memory_for_goes_to_another(devices, refusal):
    devices.engines[1].refusal = refusal
    devices.open(0, 1, 2)
    assert (await (await devices.submit(MANY))).result.rows[0] == 64_000
    assert devices.given == [0, 1, 1]


async def test_where_no_device_can_the_error_is_the_one_that_may_pass(devices):
    devices.engines[0].refusal = TooLargeError("never")
    devices.engines[1].refusal = OverloadedError("no room", 9)
    devices.engines[2].refusal = DeviceFailedError("gone")
    devices.open(0, 1, 2)
    with pytest.raises(OverloadedError, match="no room"):
        await (await devices.submit(ONE))
    assert devices.given == [1, 1, 1]


async def test_a_deadline_holds_over_all_attempts():
    devices = Devices(limit_s=0.05)
    for task in [await devices.submit(ONE, timeout_s=0.08)]:
        with pytest.raises(DeadlinePassedError):
            await task
    assert sum(devices.given) == 2
    await devices.stop()


async def test_a_request_is_too_large_only_if_it_is_for_every_device():
    def engine(total: int, device: str) -> CpuEngine:
        memory = Manager(FakeAllocator(total), Thresholds(), Gate(), bounded=True)
        made = CpuEngine(1, memory)
        made.device = torch.device(device)
        return made

    small, other, large = engine(1 << 28, "cpu"), engine(1 << 28, "cuda"), engine(1 << 34, "cuda")
    for engines, fits in (((small, large), True), ((small, other), False)):
        compute = Compute([DeviceScheduler(each, 1) for each in engines], print, print)
        with nullcontext() if fits else pytest.raises(TooLargeError):
            compute.check(1 << 30)
    for each in (small, other, large):
        each.close()
