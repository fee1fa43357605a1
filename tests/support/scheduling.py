"""Stand-ins for the scheduler's tests: an engine behind a gate, jobs, work that is watched."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np

from farpoint_server.engine.sample import SampleBatch, SampleWork
from farpoint_server.engine.types import Clouds, Samples
from farpoint_server.scheduling.lane import Job

MS = 1_000_000


class GatedEngine:
    """Answers each request with its number of points, once `gate` lets it."""

    inline_ns = -1

    def __init__(self, background: "GatedEngine | None" = None) -> None:
        self.background = background
        self.depth = self.at_once = 1
        self.gate = asyncio.Event()
        self.batches: list[list[int]] = []
        self.running: SampleBatch | None = None

    async def run(self, batch):
        sizes = [len(clouds.points) for clouds in batch.requests]
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
    work = SimpleNamespace(point_count=points, batch_key="sample")
    return Job(work, asyncio.get_running_loop().create_future(), caller, int(cost_ms * MS))


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


class WatchedBatch(SampleBatch):
    """Calls `before` on the thread that runs it."""

    def __init__(self, requests: Sequence[Clouds], before: Callable[[], object]) -> None:
        super().__init__(requests)
        self.before = before

    def run(self, device, pipeline):
        self.before()
        return super().run(device, pipeline)


class WatchedWork(SampleWork):
    """Calls `before` on the thread that runs it, alone in its batch."""

    batch_key = None

    def __init__(self, clouds: Clouds, before: Callable[[], object]) -> None:
        super().__init__(clouds)
        self.before = before

    def batch(self, requests):
        return WatchedBatch([request.clouds for request in requests], self.before)


class Clock:
    """Seconds that only the tests let pass."""

    s = 0.0

    def __call__(self) -> float:
        return self.s
