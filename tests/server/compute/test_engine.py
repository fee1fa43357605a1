"""Engines: batches, threads, work on the event loop and in the background."""

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from tests.support.compute.scheduling import WatchedWork, batch_of, clouds_of, until

from farpoint_server.compute import devices
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.threads import NICENESS, EngineThread
from farpoint_server.errors import StartError, clear_tracebacks
from farpoint_server.kinds.sample import Clouds, SampleWork, one_point

CPU = torch.device("cpu")
clouds = partial(clouds_of, np.random.default_rng(4))
FIRST = SampleWork(one_point())


class Pair:
    """An engine, and its background engine for long work, with one memory manager."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.memory = manager_of(CPU, self.gate)
        self.long = CpuEngine(1, self.memory, is_background=True)
        self.short = CpuEngine(1, self.memory, self.long)


@pytest.fixture
async def pair():
    pair = Pair()
    await pair.short.start(FIRST)
    yield pair
    pair.short.close()


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
async def engine(gate):
    engine = CpuEngine(1, manager_of(CPU, gate), cores=2)
    await engine.start(FIRST)
    yield engine
    engine.close()


async def test_a_request_gets_the_same_samples_alone_and_in_a_batch(engine):
    first, second = clouds(30, 50), clouds(20, with_distances=True)
    together = await engine.submit(batch_of(first, second))
    alone = [*await engine.submit(batch_of(first)), *await engine.submit(batch_of(second))]
    for a, b in zip(together, alone, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
    assert together[0].rows[[0, 10]].tolist() == [29, 79]
    assert together[1].rows[0] == 19
    assert together[0].distances is None
    assert together[1].distances.tolist() == alone[1].distances.tolist()


async def test_a_request_that_is_cancelled_frees_the_engine_and_the_others_are_finished(engine):
    """Alone, the large one takes many seconds; cancelled, it takes no time."""
    small = clouds(2000, with_distances=True)
    large = clouds(*[300_000] * 16, per_sample=1)
    (expected,) = await engine.submit(batch_of(small))
    batch = batch_of(large, small)
    running = asyncio.ensure_future(engine.submit(batch))
    await asyncio.sleep(0.1)
    assert not running.done()
    batch.cancel(0)
    begun = time.monotonic()
    _, kept = await running
    assert time.monotonic() - begun < 10
    assert kept.rows.tolist() == expected.rows.tolist()
    assert kept.distances.tolist() == expected.distances.tolist()


def test_auto_is_the_cpu_and_the_first_gpu_and_auto_all_every_one(monkeypatch):
    monkeypatch.setattr(devices, "_why_no_cuda", lambda index: None if index < 2 else "no more")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [*map(str, devices.resolve_all(["auto:all"]))] == ["cpu", "cuda:0", "cuda:1"]
    assert [*map(str, devices.resolve_all(["auto"]))] == ["cpu", "cuda:0"]
    assert [*map(str, devices.resolve_all(["cuda:1", "cpu", "cuda:1"]))] == ["cuda:1", "cpu"]
    with pytest.raises(StartError, match="no more"):
        devices.resolve_all(["cpu", "cuda:2"])
    monkeypatch.setattr(devices, "_why_no_cuda", lambda _: "no driver")
    for name in ("auto", "auto:all"):
        assert [*map(str, devices.resolve_all([name]))] == ["cpu"]


@pytest.fixture
def thread():
    thread = EngineThread("engine", lambda: None)
    yield thread
    thread.stop()


class Work:
    """Something large that a function holds."""

    def done(self) -> str:
        return "done"

    def fail(self) -> str:
        raise ValueError("failed")


async def test_a_function_that_is_given_up_before_its_turn_does_not_run(thread):
    turn, ran = threading.Event(), []
    first, second = thread.call(turn.wait), thread.call(lambda: ran.append(1))
    second.cancel()
    turn.set()
    await first
    await thread.call(lambda: None)
    assert ran == []


@pytest.mark.parametrize("function", [Work.done, Work.fail])
async def test_nothing_of_a_function_is_kept_while_the_thread_waits(thread, function):
    gc.collect()
    gc.disable()
    work = Work()
    kept = weakref.ref(work)
    answer = thread.call(lambda held=work: function(held))
    try:
        await answer
    except ValueError as error:
        clear_tracebacks(error)
    del work, answer
    try:
        await until(lambda: kept() is None)  # the thread may be slow to go on
    finally:
        gc.enable()


def test_cancelling_a_request_reaches_its_slices_and_halves():
    batch = batch_of(clouds(3), clouds(4, 5), clouds(6))
    rest = batch[1:]
    left, right = rest[:1].halve()
    batch.cancel(1)
    assert rest.cancelled.tolist() == [1, 1, 0]
    assert (left.cancelled.tolist(), right.cancelled.tolist()) == ([1], [1])
    assert batch[2:].cancelled.tolist() == [0]
    assert left.halve() is None


SMALL, LARGE = clouds(100), clouds(9000)


class Runs:
    """The device of each batch; the next ones raise what is put into `failures`."""

    def __init__(self) -> None:
        self.here: list[bool] = []
        self.failures: list[Exception] = []
        self.thread = threading.current_thread()

    def __call__(self) -> None:
        self.here.append(threading.current_thread() is self.thread)
        if self.failures:
            raise self.failures.pop()


async def test_small_work_is_done_on_the_event_loop_and_other_work_is_not(scheduler):
    runs = Runs()
    outcome = await scheduler.run(WatchedWork(SMALL, runs), None)
    assert (outcome.queue_ms, len(outcome.result.rows)) == (0, 33)
    assert outcome.compute_ms > 0
    await scheduler.run(WatchedWork(LARGE, runs), None)
    assert runs.here == [True, False]


async def test_an_engine_never_does_two_things_at_a_time(engine, scheduler):
    turn, runs = threading.Event(), Runs()
    busy = asyncio.ensure_future(engine.call(turn.wait))
    await asyncio.sleep(0)
    assert engine.inline(SampleWork(SMALL)) is None
    waiting = asyncio.ensure_future(scheduler.run(WatchedWork(SMALL, runs), 60))
    await asyncio.sleep(0.01)
    assert runs.here == []
    turn.set()
    await waiting
    await busy
    assert runs.here == [False]
    assert engine.inline(SampleWork(SMALL)) is not None


async def test_neither_a_trim_nor_work_on_the_event_loop_begins_while_the_other_lasts(engine, gate):
    seen = []
    with gate.exclusive() as trims:
        assert trims
        assert engine.inline(SampleWork(SMALL)) is None

    def try_to_trim() -> None:
        with gate.exclusive() as trims:
            seen.append(trims)

    assert engine.inline(WatchedWork(SMALL, try_to_trim)) is not None
    assert seen == [False]
    assert gate.readers == 0


async def test_what_fails_on_the_event_loop_is_tried_again_where_failures_are_understood(
    scheduler, gate
):
    runs = Runs()
    runs.failures.append(MemoryError())
    assert len((await scheduler.run(WatchedWork(SMALL, runs), None)).result.rows) == 33
    assert runs.here == [True, False]
    runs.failures += [ValueError("a bug")] * 2
    with pytest.raises(ValueError, match="a bug"):
        await scheduler.run(WatchedWork(SMALL, runs), None)
    assert gate.readers == 0


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is per thread on Linux")
async def test_long_work_runs_at_a_lower_priority_and_what_it_starts_too(pair):
    inherited: list[int] = []

    def start_thread() -> int:
        thread = threading.Thread(target=lambda: inherited.append(niceness()))
        thread.start()
        thread.join()
        return niceness()

    lower = min(19, niceness() + NICENESS)
    assert await pair.short.call(niceness) == niceness()
    assert await pair.short.call(torch.get_num_threads) == 1
    assert await pair.long.call(start_thread) == lower
    assert inherited == [lower]


async def test_nothing_is_run_inline_in_the_background(pair):
    assert pair.long.inline(SampleWork(clouds(10))) is None
    assert pair.short.inline(SampleWork(clouds(10))) is not None


class Held(Batch):
    """A batch that begins, and goes on once it is let."""

    def __init__(self, clouds: Clouds) -> None:
        super().__init__([WatchedWork(clouds, self.hold)])
        self.begun, self.go = threading.Event(), threading.Event()

    def hold(self) -> None:
        self.begun.set()
        assert self.go.wait(30)


@pytest.fixture
async def held(pair):
    """A batch that the background engine has begun, and its answers."""
    batch = Held(clouds(500, 300, with_distances=True))
    running = asyncio.ensure_future(pair.long.submit(batch))
    await asyncio.to_thread(batch.begun.wait, 30)
    yield batch, running
    batch.go.set()
    await running


async def test_short_work_runs_while_long_work_does_and_both_are_right(pair, held):
    batch, long = held
    (short,) = await pair.short.submit(Batch([SampleWork(batch.works[0].clouds)]))
    assert pair.short.inline(SampleWork(clouds(10))) is not None
    assert not long.done()
    batch.go.set()
    (late,) = await long
    np.testing.assert_array_equal(short.rows, late.rows)
    np.testing.assert_array_equal(short.distances, late.distances)


async def test_a_trim_waits_for_long_work(pair, held):
    batch, long = held
    assert await pair.short.call(lambda: pair.memory.trim_if_idle(0)) is None
    assert await pair.short.call(partial(pair.memory.trim, patience_s=0.02)) is None
    assert len(await pair.short.submit(batch_of(clouds(100)))) == 1
    trim = pair.short.call(pair.memory.trim)
    batch.go.set()
    assert await trim is not None
    await long


async def test_a_batch_alone_has_all_cores_and_two_share_them():
    threads: list[int] = []

    def count() -> None:
        threads.append(torch.get_num_threads())

    engine, first = CpuEngine(4, at_once=2), Held(clouds(10))
    first.works[0].before = lambda: (count(), first.hold())
    running = asyncio.ensure_future(engine.submit(first))
    await asyncio.to_thread(first.begun.wait, 30)
    await engine.submit(Batch([WatchedWork(clouds(10), count)]))
    first.go.set()
    await running
    await engine.submit(Batch([WatchedWork(clouds(10), count)]))
    assert threads == [4, 2, 4]
    engine.close()


async def test_the_cpu_time_of_models_is_counted_and_not_that_of_kernels_with_threads():
    engine = CpuEngine(1)
    batch, of_model = batch_of(clouds(10)), batch_of(clouds(10))
    of_model.works[0].uses_openmp = True
    for each in (batch, of_model):
        await engine.submit(each)
    assert batch.cpu_s is None
    assert of_model.cpu_s > 0
    engine.close()
