"""Work that is done on the event loop: which it is, when it is, and what happens when it fails."""

import asyncio
import threading

import numpy as np
import pytest
import torch

from farpoint_server.engine import sample
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleWork
from farpoint_server.engine.types import Clouds, Samples
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import manager_of
from farpoint_server.memory.policy import Options
from farpoint_server.scheduling.batcher import Batcher

RANDOM = np.random.default_rng(5)
CPU = torch.device("cpu")


def clouds(lengths: list[int], counts: list[int], *, with_distances: bool = False) -> Clouds:
    points = RANDOM.normal(size=(sum(lengths), 3)).astype(np.float32)
    starts = np.zeros(len(lengths), np.int64)
    return Clouds(points, np.array(lengths), np.array(counts), starts, with_distances)


SMALL = SampleWork(clouds([100], [9]))
LARGE = SampleWork(clouds([3000], [2500]))


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
async def engine(gate):
    engine = Engine(CPU, 1, manager_of(CPU, Options(), gate), cores=2)
    await engine.start()
    yield engine
    engine.stop()


@pytest.fixture
def launches(monkeypatch):
    """The thread of each launch; what is put into `failures` is raised by the next ones."""
    threads, failures = [], []
    launch = sample.launch

    def watched(requests, cancelled):
        threads.append(threading.current_thread())
        if failures:
            raise failures.pop()
        return launch(requests, cancelled)

    monkeypatch.setattr(sample, "launch", watched)
    return threads, failures


@pytest.fixture
async def batcher(engine):
    batcher = Batcher(engine, batch_points=10_000)
    batcher.start()
    yield batcher
    await batcher.stop()


def is_here(thread: threading.Thread) -> bool:
    return thread is threading.current_thread()


async def test_small_work_is_done_on_the_event_loop_and_other_work_is_not(batcher, launches):
    threads, _ = launches
    outcome = await batcher.run(SMALL, None)
    assert (outcome.queue_ms, len(outcome.result.rows)) == (0, 9)
    assert outcome.compute_ms > 0
    await batcher.run(LARGE, None)
    assert [is_here(thread) for thread in threads] == [True, False]


async def test_an_engine_never_does_two_things_at_a_time(engine, batcher, launches):
    threads, _ = launches
    turn = threading.Event()
    busy = asyncio.ensure_future(engine.call(turn.wait))
    await asyncio.sleep(0)
    assert engine.run_inline_if_idle(SMALL) is None
    waiting = asyncio.ensure_future(batcher.run(SMALL, 60))
    await asyncio.sleep(0.01)
    assert threads == []
    turn.set()
    await waiting
    await busy
    assert [is_here(thread) for thread in threads] == [False]
    assert engine.run_inline_if_idle(SMALL) is not None


async def test_the_event_loop_waits_for_no_trim(engine, gate):
    with gate.try_exclusive() as trims:
        assert trims
        assert engine.run_inline_if_idle(SMALL) is None
    assert engine.run_inline_if_idle(SMALL) is not None
    assert gate.readers == 0


async def test_no_trim_begins_while_small_work_is_done(engine, gate, monkeypatch):
    seen = []

    def launch(requests, cancelled):  # noqa: ARG001
        with gate.try_exclusive() as trims:
            seen.append(trims)
        return [Samples(np.zeros(9, np.int32), None)]

    monkeypatch.setattr(sample, "launch", launch)
    assert engine.run_inline_if_idle(SMALL) is not None
    assert seen == [False]
    assert gate.readers == 0


async def test_what_fails_on_the_event_loop_is_tried_again_where_failures_are_understood(
    batcher, launches, gate
):
    threads, failures = launches
    failures.append(MemoryError())
    assert len((await batcher.run(SMALL, None)).result.rows) == 9
    assert [is_here(thread) for thread in threads] == [True, False]
    failures += [ValueError("a bug")] * 2
    with pytest.raises(ValueError, match="a bug"):
        await batcher.run(SMALL, None)
    assert gate.readers == 0
