"""Stand-ins for the scheduler: an engine behind a gate, jobs, watched work, a clock."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.queue import Job
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

MS = 1_000_000


class GatedEngine:
    """Answers each request with its number of points, once `gate` lets it."""

    inline_ns = inline_batch_ns = -1
    device_type = "cpu"

    def __init__(self, background: "GatedEngine | None" = None) -> None:
        self.background = background
        self.depth = self.at_once = 1
        self.gate = asyncio.Event()
        self.batches: list[list[int]] = []
        self.running: Batch | None = None

    def is_ready(self, _wake):
        return True

    async def submit(self, batch):
        sizes = [work.point_count for work in batch.works]
        self.batches.append(sizes)
        self.running = batch
        await self.gate.wait()
        return [Samples(np.array([size], np.int32), None) for size in sizes]


async def settle() -> None:
    """Lets everything happen that needs no time to pass, however slow the machine is."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Waits for what another thread or task does."""

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(poll(), 30)


def cloud(points: int) -> SampleWork:
    """Work of one cloud, of which one sample is wanted."""
    one = np.ones(1, np.int64)
    return SampleWork(Clouds(np.zeros((points, 3), np.float32), one * points, one, one - 1))


def job(caller: str, cost_ms: float, points: int = 1) -> Job:
    """A job that is only queued. It needs a running event loop."""
    work = SimpleNamespace(few_points=0, point_count=points, batch_key="sample", uses_openmp=False)
    return Job(work, asyncio.get_running_loop().create_future(), caller, int(cost_ms * MS))


def batch_of(*requests: Clouds) -> Batch:
    """A batch of Sample requests."""
    return Batch([SampleWork(clouds) for clouds in requests])


def clouds_of(
    random: np.random.Generator, *lengths: int, per_sample: int = 3, with_distances: bool = False
) -> Clouds:
    """Clouds of these lengths; of each a point in `per_sample` is wanted, the last row first."""
    return Clouds(
        random.normal(size=(sum(lengths), 3)).astype(np.float32),
        np.array(lengths),
        np.array([max(1, length // per_sample) for length in lengths]),
        np.array(lengths) - 1,
        with_distances,
    )


class WatchedWork(SampleWork):
    """Calls `before` on the thread that runs it, alone in its batch."""

    batch_key = None

    def __init__(self, clouds: Clouds, before: Callable[[], object]) -> None:
        super().__init__(clouds)
        self.before = before

    @classmethod
    def launches(cls, works):
        for work in works:
            work.before()
        return super().launches(works)


class Clock:
    """Seconds that only the tests let pass."""

    s = 0.0

    def __call__(self) -> float:
        return self.s
