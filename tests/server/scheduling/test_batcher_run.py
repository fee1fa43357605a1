"""Batches that run at once, predictions and their learning, by an injected clock."""

import asyncio

import numpy as np
import pytest
from tests.support.scheduling import MS, GatedEngine, cloud, settle

from farpoint_server.engine.types import Samples
from farpoint_server.errors import DeadlinePassedError, DeadlineTooCloseError, OverloadedError
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.scheduling.lane import BatchMetrics, CostModel

SECOND_NS = 1000 * MS


class Clock:
    """Seconds that only the tests let pass."""

    s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock():
    return Clock()


class InlineEngine(GatedEngine):
    """Does small work at once, which takes a quarter of a second."""

    def __init__(self, clock, inline_ns: int) -> None:
        super().__init__()
        self.clock, self.inline_ns, self.inline = clock, inline_ns, []

    def run_inline_if_idle(self, work):
        self.inline.append(work.point_count)
        self.clock.s += 0.25
        return Samples(np.array([work.point_count], np.int32), None)


async def test_work_as_small_as_the_limit_is_done_at_once(clock):
    engine, requests, points = InlineEngine(clock, cloud(10).cost_ns), [], []
    metrics = BatchMetrics(requests.append, points.append)
    batcher = Batcher(engine, 100, metrics=metrics, clock=clock)
    for timeout_s in (None, 0.5):
        outcome = await batcher.run(cloud(10), timeout_s)
        assert (outcome.result.rows[0], outcome.queue_ms, outcome.compute_ms) == (10, 0.0, 250.0)
    assert (engine.inline, requests, points) == ([10, 10], [1, 1], [10, 10])
    larger = asyncio.create_task(batcher.run(cloud(11), None))
    await settle()
    assert (engine.inline, batcher.waiting_points) == ([10, 10], 11)
    larger.cancel()


async def test_small_work_does_not_pass_what_waits(clock):
    engine = InlineEngine(clock, cloud(10).cost_ns)
    batcher = Batcher(engine, 100)
    tasks = [asyncio.create_task(batcher.run(cloud(n), None)) for n in (11, 10)]
    await settle()
    assert (engine.inline, batcher.waiting_requests) == ([], 2)
    for task in tasks:
        task.cancel()


async def test_work_that_is_predicted_as_long_as_the_limit_is_short():
    long = GatedEngine()
    short = GatedEngine(long)
    batcher = Batcher(short, 100, long_ns=cloud(10).cost_ns)
    batcher.start()
    tasks = [asyncio.create_task(batcher.run(cloud(n), None)) for n in (10, 11)]
    await settle()
    assert (short.batches, long.batches) == ([[10]], [[11]])
    for task in tasks:
        task.cancel()
    await batcher.stop()


def slow() -> CostModel:
    """A million points, estimated at 15 ms, have taken 0.2 s."""
    costs = CostModel()
    for _ in range(5):
        costs.observe([cloud(1_000_000)], 0.2 * SECOND_NS)
    return costs


async def test_a_deadline_is_refused_where_the_work_takes_twice_as_long():
    batcher = Batcher(GatedEngine(), 100, costs=slow())
    with pytest.raises(DeadlineTooCloseError, match=r"in about 0.2 s"):
        await batcher.run(cloud(1_000_000), 0.2 / 2.1)
    waits = asyncio.create_task(batcher.run(cloud(1_000_000), 0.2 / 1.8))
    await settle()
    assert (batcher.waiting_requests, waits.done()) == (1, False)
    waits.cancel()


async def test_a_deadline_that_has_passed_was_not_too_close():
    batcher = Batcher(GatedEngine(), 100, costs=slow())
    with pytest.raises(DeadlinePassedError) as caught:
        await batcher.run(cloud(1_000_000), 0)
    assert not isinstance(caught.value, DeadlineTooCloseError)


async def test_times_are_told_in_milliseconds_and_learned_in_nanoseconds(clock):
    engine, costs = GatedEngine(), CostModel()
    batcher = Batcher(engine, 2_000_000, costs=costs, clock=clock)
    work = cloud(1_000_000)
    estimated_s = work.cost_ns / SECOND_NS
    enqueued = asyncio.create_task(batcher.run(work, None))
    await settle()
    clock.s = 0.5
    batcher.start()
    await settle()
    clock.s += 2 * estimated_s
    engine.gate.set()
    outcome = await enqueued
    assert outcome.queue_ms == 500
    assert outcome.compute_ms == pytest.approx(2e3 * estimated_s)
    assert costs.predict_ns(work) == pytest.approx(2 * work.cost_ns, rel=1e-6)
    await batcher.stop()


@pytest.mark.parametrize("how", ["refused", "left"])
async def test_a_batch_that_was_not_done_whole_teaches_nothing(clock, how):
    engine, costs = GatedEngine(), CostModel()
    batcher = Batcher(engine, 4_000_000, costs=costs, clock=clock)
    if how == "refused":

        async def refuse_one(batch):
            await engine.gate.wait()
            clock.s += 10
            rows = [Samples(np.zeros(1, np.int32), None) for _ in batch.requests]
            return [OverloadedError("too large", 1), *rows[1:]]

        engine.run = refuse_one
    tasks = [asyncio.create_task(batcher.run(cloud(1_000_000), None)) for _ in range(2)]
    await settle()
    batcher.start()
    await settle()
    if how == "left":
        tasks[0].cancel()
        await settle()
        clock.s += 10
    engine.gate.set()
    await asyncio.wait(tasks)
    assert tasks[1].result()
    assert costs.predict_ns(cloud(1_000_000)) == cloud(1_000_000).cost_ns
    await batcher.stop()


async def test_who_waits_for_a_death_and_leaves_leaves_nothing_behind():
    batcher = Batcher(GatedEngine(GatedEngine()), 100)
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(batcher.died())
    await settle()
    waiting.cancel()
    await settle()
    assert asyncio.all_tasks() == before
