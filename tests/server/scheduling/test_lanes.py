"""Two lanes: which work waits where, that short work passes, and what reaches both."""

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs
from tests.support.scheduling import MS, GatedEngine, cloud, settle

from farpoint_server import request_context
from farpoint_server.errors import DeadlinePassedError, DeadlineTooCloseError, EngineHungError
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.scheduling.lane import CostModel, Watchdog

# A point is estimated at 15 ns: 10 000 points are 150 µs.
LONG_NS = 150_000
SHORT, LONG = 1000, 20_000


class TwoLanes:
    """A batcher with a gated engine in each lane."""

    def __init__(self, watchdog: Watchdog | None = None) -> None:
        self.long = GatedEngine()
        self.short = GatedEngine(self.long)
        self.costs = CostModel()
        self.batcher = Batcher(
            self.short, 1 << 20, watchdog, long_ns=LONG_NS, batch_ns=LONG_NS, costs=self.costs
        )
        self.batcher.start()

    async def submit(self, *sizes: int, caller: str = "", timeout_s: float | None = None):
        async def run(size: int):
            request_context.fork()
            request_context.caller.set(caller)
            return await self.batcher.run(cloud(size), timeout_s)

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
    await lanes.batcher.stop()


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
    (refused,) = await lanes.submit(1_000_000, caller="b", timeout_s=0.05)
    with pytest.raises(DeadlineTooCloseError):
        refused.result()
    tasks += await lanes.submit(1_000_000, caller="b", timeout_s=60)
    assert lanes.batcher.waiting_requests == 2
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
        await lanes.batcher.run(cloud(LONG), None)
    lanes.short.gate.set()
    assert await sizes_of(await lanes.submit(SHORT)) == [SHORT]
    with capture_logs() as logs:
        lanes.long.gate.set()
        while reports != [False, True]:
            await asyncio.sleep(0.001)
    assert [line["event"] for line in logs] == ["engine recovered"]
    assert await sizes_of(await lanes.submit(LONG)) == [LONG]
    await lanes.batcher.stop()
