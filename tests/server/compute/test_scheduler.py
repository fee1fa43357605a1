"""The scheduler: what shares a batch, cancellation, errors, deadlines, predictions; two lanes."""

import asyncio
import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.support.compute.scheduling import MS, Clock, GatedEngine, cloud, job, settle

from farpoint_server import request_context
from farpoint_server.compute.cost import MAX_RATIO, CostModel
from farpoint_server.compute.lane import BatchMetrics, Lane, Watchdog
from farpoint_server.compute.queue import Job, JobQueue
from farpoint_server.compute.scheduler import MOST_JOINED, DeviceScheduler
from farpoint_server.errors import (
    DeadlinePassedError,
    DeadlineTooCloseError,
    EngineHungError,
    OverloadedError,
)
from farpoint_server.kinds.sample import Samples, SampleWork

POISON, TOO_LARGE, MISCOUNTED = 13, 14, 15


class StandInEngine(GatedEngine):
    """Fails on POISON, refuses TOO_LARGE, and has no answer at all for MISCOUNTED."""

    def __init__(self, depth: int = 1) -> None:
        super().__init__()
        self.depth, self.at_once = depth, 1
        self.before_failure = lambda: None

    async def submit(self, batch):
        answers = await super().submit(batch)
        sizes = [work.point_count for work in batch.works]
        if POISON in sizes:
            self.before_failure()
            raise RuntimeError("poison")
        for index, size in enumerate(sizes):
            if size == TOO_LARGE:
                answers[index] = OverloadedError("too large", 1)
        return [a for a, size in zip(answers, sizes, strict=True) if size != MISCOUNTED]


class WorkAlone(SampleWork):
    """Work without a batch key, as Encode."""

    batch_key = None


def alone(points: int) -> WorkAlone:
    return WorkAlone(cloud(points).clouds)


class Joined(SampleWork):
    """Small work that runs at once with what arrives with it, as small models do."""

    is_joined = True


def joined(points: int) -> Joined:
    return Joined(cloud(points).clouds)


@pytest.fixture
async def engine():
    return StandInEngine()


@pytest.fixture
async def submit(scheduler):
    """Queues clouds of the given sizes, behind one that already runs; returns their tasks."""

    async def submit(*sizes, timeout_s=None, work=cloud):
        tasks = [asyncio.create_task(scheduler.run(work(n), timeout_s)) for n in sizes]
        await settle()
        return tasks

    await submit(1)
    return submit


async def rows(tasks):
    return [int((await task).result.rows[0]) for task in tasks]


async def test_large_requests_run_alone_and_small_ones_wait_for_one_of_them_at_most(engine, submit):
    tasks = await submit(10, 500, 600, 700, 20, 30)
    engine.gate.set()
    await rows(tasks)
    assert engine.batches[1:] == [[10, 20, 30], [500], [600], [700]]
    engine.gate.clear()
    tasks = [*await submit(800, 900), *await submit(40)]
    engine.gate.set()
    await rows(tasks)
    assert engine.batches[5:] == [[800], [40], [900]]


async def test_kinds_that_share_no_launch_run_alone_and_in_turns_with_the_others(engine, submit):
    tasks = [*await submit(1), *await submit(5, 6, work=alone), *await submit(40, 50)]
    engine.gate.set()
    await rows(tasks)
    assert engine.batches[1:] == [[1, 40, 50], [5], [6]]


async def test_work_of_a_caller_who_left_is_cancelled_and_no_other(engine, submit):
    engine.gate.set()
    await rows(await submit(1))
    engine.gate.clear()
    _, left, _ = await submit(10, 20, 30)
    assert engine.batches[-1] == [10, 20, 30]
    left.cancel()
    await asyncio.wait([left])
    assert engine.running.cancelled.tolist() == [0, 1, 0]


async def test_work_of_a_caller_who_left_is_not_kept(engine):
    scheduler = DeviceScheduler(engine, batch_points=100)
    work = cloud(10)
    kept = weakref.ref(work.clouds)
    task = asyncio.create_task(scheduler.run(work, None))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    del work, task
    gc.collect()
    assert kept() is None


async def test_work_whose_deadline_passed_is_not_begun(engine, submit):
    (late,) = await submit(10, timeout_s=0)
    (stayed,) = await submit(20, timeout_s=60)
    with pytest.raises(DeadlinePassedError):
        await late
    engine.gate.set()
    assert await rows([stayed]) == [20]
    assert engine.batches[1:] == [[20]]


@pytest.mark.parametrize(("size", "error"), [(POISON, RuntimeError), (TOO_LARGE, OverloadedError)])
async def test_only_the_bad_request_of_a_batch_fails(engine, submit, size, error):
    """Whether the batch fails or the engine answers one request with an error."""
    before, bad, after = await submit(10, size, 20)
    engine.gate.set()
    assert await rows([before, after]) == [10, 20]
    with pytest.raises(error, match=r"poison|too large"):
        await bad
    assert await rows(await submit(30)) == [30]


async def test_a_caller_that_left_while_its_batch_failed_is_not_tried_again(engine, submit):
    bad, left, stayed = await submit(POISON, 10, 20)
    engine.before_failure = left.cancel
    engine.gate.set()
    assert await rows([stayed]) == [20]
    assert engine.batches[1:] == [[POISON, 10, 20], [POISON], [20]]
    with pytest.raises(RuntimeError, match="poison"):
        await bad


async def test_a_bug_costs_its_batch_alone_and_is_logged(submit, engine):
    tasks = await submit(10, MISCOUNTED)
    engine.gate.set()
    with capture_logs() as logs:
        for task in tasks:
            with pytest.raises(ValueError, match="zip"):
                await asyncio.wait_for(task, 10)
    assert [(line["event"], line["log_level"]) for line in logs] == [("batch failed", "error")]
    assert await rows(await submit(20)) == [20]


async def test_while_a_gpu_launches_a_batch_others_gather_for_the_next_one():
    engine, wakes = StandInEngine(depth=2), []
    engine.is_ready = lambda wake: not wakes.append(wake) and is_launched
    is_launched = True
    scheduler = DeviceScheduler(engine, batch_points=100)
    scheduler.start()

    async def submit(*sizes):
        tasks = [asyncio.create_task(scheduler.run(cloud(n), None)) for n in sizes]
        await settle()
        return tasks

    tasks = await submit(1)
    is_launched = False
    tasks += [*await submit(40), *await submit(45)]
    assert engine.batches == [[1]]
    is_launched = True
    wakes[-1]()
    await settle()
    assert engine.batches == [[1], [40, 45]]
    tasks += await submit(20)
    assert engine.batches == [[1], [40, 45]], "both places are taken"
    engine.gate.set()
    assert await rows(tasks) == [1, 40, 45, 20]
    await scheduler.stop()


async def test_work_behind_a_line_that_no_caller_waits_for_is_done(engine):
    loop, queue = asyncio.get_running_loop(), JobQueue(batch_points=100)
    lane = Lane(engine, queue, Watchdog(None), 0, CostModel(), BatchMetrics(), Clock())
    late, stayed = (Job(cloud(points), loop.create_future()) for points in (10, 500))
    late.answer.cancel()
    engine.gate.set()
    lane.start()
    await settle()
    for each in (late, stayed):
        queue.add(each)
    assert (await asyncio.wait_for(stayed.answer, 10)).result.rows[0] == 500
    await lane.stop()


async def test_an_engine_of_two_batches_at_once_is_free_in_half_the_time(engine):
    queue = JobQueue(batch_points=100)
    lane = Lane(engine, queue, Watchdog(None), 0, CostModel(), BatchMetrics(), Clock())
    queue.add(job("a", 10))
    assert lane.wait_ns == 10 * MS
    engine.at_once = 2
    assert lane.wait_ns == 5 * MS


class OfModel(SampleWork):
    """Small work that calls ops of torch."""

    uses_openmp = True


def of_model(points: int) -> OfModel:
    return OfModel(cloud(points).clouds)


async def test_the_last_thread_of_an_engine_leaves_small_work_of_models_to_the_others():
    engine = StandInEngine(depth=2)
    engine.at_once = 2
    scheduler = DeviceScheduler(engine, 1000, batch_ns=10 * MS)
    scheduler.start()
    tasks = []
    for points in (10, 20, 30):
        tasks.append(asyncio.create_task(scheduler.run(of_model(points), None)))
        await settle()
    assert engine.batches == [[10]]
    engine.gate.set()
    await rows(tasks)
    assert engine.batches == [[10], [20, 30]]
    await scheduler.stop()


async def test_a_batch_whose_callers_have_left_is_still_watched(engine):
    """However short the callers' deadlines are, an engine that hangs is noticed."""
    hung = asyncio.Event()
    scheduler = DeviceScheduler(engine, 100, Watchdog(0.02, lambda _: hung.set()))
    scheduler.start()
    call = asyncio.create_task(scheduler.run(alone(10), None))
    await settle()
    call.cancel()
    await asyncio.wait_for(hung.wait(), 30)
    await scheduler.stop()


SECOND_NS = 1000 * MS


@pytest.fixture
def clock():
    return Clock()


class InlineEngine(GatedEngine):
    """Does small work at once, which takes a quarter of a second."""

    def __init__(self, clock, inline_ns: int) -> None:
        super().__init__()
        self.clock, self.inline_ns, self.done, self.answers = clock, inline_ns, [], True

    def inline(self, work):
        self.done.append(work.point_count)
        self.clock.s += 0.25
        if not self.answers:
            return None
        return Samples(np.array([work.point_count], np.int32), None)


async def test_work_as_small_as_the_limit_is_done_at_once(clock):
    engine, requests, points = InlineEngine(clock, cloud(10).cost_ns("cpu")), [], []
    metrics = BatchMetrics(requests.append, points.append)
    scheduler = DeviceScheduler(engine, 100, metrics=metrics, clock=clock)
    for timeout_s in (None, 0.5):
        outcome = await scheduler.run(cloud(10), timeout_s)
        assert (outcome.result.rows[0], outcome.queue_ms, outcome.compute_ms) == (10, 0.0, 250.0)
    assert (engine.done, requests, points) == ([10, 10], [1, 1], [10, 10])
    larger = asyncio.create_task(scheduler.run(cloud(11), None))
    await settle()
    assert (engine.done, scheduler.waiting_points) == ([10, 10], 11)
    larger.cancel()


async def test_work_on_the_loop_corrects_what_its_kind_is_predicted_to_take(clock):
    """However small: it took a quarter of a second, no thread was in between."""
    engine = InlineEngine(clock, cloud(10).cost_ns("cpu"))
    scheduler = DeviceScheduler(engine, 100, clock=clock)
    scheduler.costs.observe([cloud(10)], 1)  # too small to teach anything in a lane
    assert scheduler.costs.predict_ns(cloud(10)) == cloud(10).cost_ns("cpu")
    for gives_up in (False, True):
        engine.answers = not gives_up
        assert (scheduler.run_inline(cloud(10)) is None) == gives_up
        most = MAX_RATIO * cloud(10).cost_ns("cpu")
        assert scheduler.costs.predict_ns(cloud(10)) == most
        assert scheduler.costs.predict_alone_ns(cloud(10)) == most
        scheduler = DeviceScheduler(engine, 100, clock=clock)


async def test_small_work_does_not_pass_what_waits(clock):
    engine = InlineEngine(clock, cloud(10).cost_ns("cpu"))
    scheduler = DeviceScheduler(engine, 100)
    tasks = [asyncio.create_task(scheduler.run(cloud(n), None)) for n in (11, 10)]
    await settle()
    assert (engine.done, scheduler.waiting_requests) == ([], 2)
    for task in tasks:
        task.cancel()


async def test_times_are_reported_in_milliseconds_and_learned_in_nanoseconds(clock):
    engine = GatedEngine()
    scheduler = DeviceScheduler(engine, 2_000_000, clock=clock)
    work = cloud(1_000_000)
    estimated_s = work.cost_ns("cpu") / SECOND_NS
    enqueued = asyncio.create_task(scheduler.run(work, None))
    await settle()
    clock.s = 0.5
    scheduler.start()
    await settle()
    clock.s += 2 * estimated_s
    engine.gate.set()
    outcome = await enqueued
    assert outcome.queue_ms == 500
    assert outcome.compute_ms == pytest.approx(2e3 * estimated_s)
    assert scheduler.costs.predict_ns(work) == pytest.approx(2 * work.cost_ns("cpu"), rel=1e-6)
    await scheduler.stop()


async def test_the_cpu_time_of_a_batch_is_learned_if_the_engine_counts_it(clock):
    engine = GatedEngine()
    scheduler = DeviceScheduler(engine, 2_000_000, clock=clock)
    scheduler.start()
    work = cloud(1_000_000)
    running = asyncio.create_task(scheduler.run(work, None))
    await settle()
    engine.running.cpu_s = 3 * work.cost_ns("cpu") / SECOND_NS
    clock.s += 100
    engine.gate.set()
    assert (await running).compute_ms == 100_000
    assert scheduler.costs.predict_ns(work) == pytest.approx(3 * work.cost_ns("cpu"), rel=1e-6)
    await scheduler.stop()


async def test_a_batch_with_a_refused_request_teaches_nothing(engine, clock):
    scheduler = DeviceScheduler(engine, 4_000_000, clock=clock)
    sizes = (1_000_000, TOO_LARGE)
    tasks = [asyncio.create_task(scheduler.run(cloud(size), None)) for size in sizes]
    await settle()
    scheduler.start()
    await settle()
    clock.s += 10
    engine.gate.set()
    await asyncio.wait(tasks)
    assert scheduler.costs.predict_ns(cloud(1_000_000)) == cloud(1_000_000).cost_ns("cpu")
    await scheduler.stop()


async def test_a_scheduler_that_is_stopped_leaves_nothing_behind():
    scheduler = DeviceScheduler(GatedEngine(GatedEngine()), 100)
    before = asyncio.all_tasks()
    scheduler.start()
    await settle()
    await scheduler.stop()
    assert asyncio.all_tasks() == before


# A point is estimated at 15 ns: 10 000 points are 150 µs.
LONG_NS = 150_000
SHORT, LONG = 1000, 20_000


class TwoLanes:
    """A scheduler with a gated engine in each lane."""

    def __init__(self, watchdog: Watchdog | None = None) -> None:
        self.long = GatedEngine()
        self.short = GatedEngine(self.long)
        self.scheduler = DeviceScheduler(
            self.short, 1 << 20, watchdog, long_ns=LONG_NS, batch_ns=LONG_NS
        )
        self.costs = self.scheduler.costs
        self.scheduler.start()

    async def submit(self, *sizes: int, caller: str = "", timeout_s: float | None = None):
        async def run(size: int):
            request_context.fork()
            request_context.caller.set(caller)
            return await self.scheduler.run(cloud(size), timeout_s)

        tasks = []
        for size in sizes:
            tasks.append(asyncio.create_task(run(size)))
            await settle()
        return tasks

    def open(self) -> None:
        self.short.gate.set()
        self.long.gate.set()


@pytest.fixture
async def lanes():
    lanes = TwoLanes()
    yield lanes
    await lanes.scheduler.stop()


async def sizes_of(tasks: Sequence[asyncio.Task]) -> list[int]:
    return [int((await task).result.rows[0]) for task in tasks]


async def test_short_work_passes_long_work(lanes):
    long = await lanes.submit(LONG, LONG)
    lanes.short.gate.set()
    assert await sizes_of(await lanes.submit(SHORT, SHORT)) == [SHORT, SHORT]
    assert not any(task.done() for task in long)
    assert lanes.long.batches == [[LONG]]
    lanes.open()
    assert await sizes_of(long) == [LONG, LONG]
    assert lanes.long.batches == [[LONG], [LONG]]


async def test_a_kind_that_turns_out_slow_is_long_from_then_on(lanes):
    lanes.costs.observe([cloud(4000)] * 40, 40 * MS)
    await lanes.submit(4000)
    assert (lanes.short.batches, lanes.long.batches) == ([], [[4000]])
    lanes.open()


@pytest.mark.parametrize("size", [SHORT, LONG])
async def test_a_deadline_ends_work_that_runs_and_work_that_waits(lanes, size):
    running, waiting = await lanes.submit(size, size, timeout_s=0.02)
    engine = lanes.long if size == LONG else lanes.short
    for task in (running, waiting):
        with pytest.raises(DeadlinePassedError):
            await task
    assert engine.running.cancelled.tolist() == [1]
    lanes.open()
    await sizes_of(await lanes.submit(size))
    assert engine.batches == [[size], [size]]


async def test_a_deadline_that_is_clearly_predicted_to_pass_is_refused_at_once(lanes):
    """A million points are estimated at 15 ms, and have taken 60."""
    for _ in range(5):
        lanes.costs.observe([cloud(1_000_000)], 60 * MS)
    tasks = await lanes.submit(1_000_000, caller="a")
    tasks += await lanes.submit(1_000_000, caller="a", timeout_s=60)
    (refused,) = await lanes.submit(1_000_000, caller="a", timeout_s=0.05)
    with pytest.raises(DeadlineTooCloseError, match=r"in about 0.12 s.* deadline is in 0.05 s"):
        refused.result()
    for timeout_s in (0.07, 0):  # of more than half of the time, and of one that has passed
        (late,) = await lanes.submit(1_000_000, caller="a", timeout_s=timeout_s)
        with pytest.raises(DeadlinePassedError) as caught:
            await late
        assert type(caught.value) is DeadlinePassedError
    (refused,) = await lanes.submit(1_000_000, caller="b", timeout_s=0.05)
    with pytest.raises(DeadlineTooCloseError):
        refused.result()
    lanes.long.at_once = 2
    (refused,) = await lanes.submit(1_000_000, caller="a", timeout_s=0.025)
    with pytest.raises(DeadlineTooCloseError, match=r"in about 0.06 s"):
        refused.result()
    tasks += await lanes.submit(1_000_000, caller="b", timeout_s=60)
    assert lanes.scheduler.waiting_requests == 2
    lanes.open()
    assert await sizes_of(tasks) == [1_000_000] * 3


async def test_callers_of_a_lane_that_hangs_get_an_error_and_the_other_lane_serves():
    reports: list[bool] = []
    lanes = TwoLanes(Watchdog(0.02, reports.append))
    with capture_logs() as logs:
        for task in await lanes.submit(LONG, LONG):
            with pytest.raises(EngineHungError):
                await task
    assert reports == [False]
    assert [line["event"] for line in logs] == ["engine hung"]
    assert lanes.long.running.cancelled.tolist() == [1]
    with pytest.raises(EngineHungError):
        await lanes.scheduler.run(cloud(LONG), None)
    lanes.short.gate.set()
    assert await sizes_of(await lanes.submit(SHORT)) == [SHORT]
    with capture_logs() as logs:
        lanes.long.gate.set()
        while reports != [False, True]:
            await asyncio.sleep(0.001)
    assert [line["event"] for line in logs] == ["engine recovered"]
    assert await sizes_of(await lanes.submit(LONG)) == [LONG]
    await lanes.scheduler.stop()


async def test_small_work_that_outlasts_its_budget_is_queued_and_so_is_its_callers_next(clock):
    """Another caller's is still run inline."""
    engine = InlineEngine(clock, cloud(10).cost_ns("cpu"))
    scheduler = DeviceScheduler(engine, 100, clock=clock)
    scheduler.start()
    inline, engine.inline = engine.inline, lambda work: inline(work) and None
    engine.gate.set()
    request_context.caller.set("slow")
    await scheduler.run(cloud(10), None)
    assert engine.batches == [[10]]
    engine.inline = inline
    await scheduler.run(cloud(9), None)
    assert engine.batches == [[10], [9]]
    request_context.caller.set("other")
    await scheduler.run(cloud(8), None)
    assert (engine.batches, engine.done) == ([[10], [9]], [10, 8])
    request_context.caller.set("slow")
    clock.s += 1000
    await scheduler.run(cloud(7), None)
    assert engine.done == [10, 8, 7]
    await scheduler.stop()


@pytest.fixture
def inline(engine):
    """Sizes of each batch that ran on the event loop; none does once it is full of POISON."""
    engine.inline_batch_ns, batches = 1 << 40, []

    def inline_batch(batch):
        sizes = [work.point_count for work in batch.works]
        batches.append(sizes)
        if POISON in sizes:
            raise RuntimeError("poison")
        return [Samples(np.array([size], np.int32), None) for size in sizes]

    engine.inline_batch = inline_batch
    return batches


async def test_small_work_of_a_turn_of_the_event_loop_runs_at_once(scheduler, inline):
    tasks = [asyncio.create_task(scheduler.run(joined(n), None)) for n in (3, 4, 5)]
    assert await rows(tasks) == [3, 4, 5]
    assert inline == [[3, 4, 5]]


async def test_small_work_does_not_wait_for_all_that_still_arrives(scheduler, inline):
    tasks = []
    for _ in range(3 * MOST_JOINED):
        tasks.append(asyncio.create_task(scheduler.run(joined(3), None)))
        await asyncio.sleep(0)
    assert len(inline[0]) == MOST_JOINED
    assert await rows(tasks) == [3] * len(tasks)


async def test_small_work_that_the_event_loop_fails_at_is_queued(scheduler, inline, engine):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    tasks = [asyncio.create_task(scheduler.run(joined(n), None)) for n in (3, POISON)]
    engine.gate.set()
    (_, failed) = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(failed, RuntimeError)
    assert (inline, engine.batches[0]) == ([[3, POISON]], [3, POISON])
    assert [str(context["exception"]) for context in errors] == ["poison"]
