"""Stand-ins for the scheduler: an engine behind a gate, jobs, watched work, virtual time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import numpy as np

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.queue import Job
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

MS = 1_000_000


class GatedEngine:
    """Answers each request with its number of points, once `gate` lets it."""

    inline_ns = -1
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


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Sleeps end at once, in their order: seconds of a simulation take as long as its steps."""

    def __init__(self) -> None:
        super().__init__(_Jump(self))
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def spend(self, seconds: float) -> None:
        """Lets time pass while the loop, and the interpreter, can do nothing else."""
        self._now += seconds


class _Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._loop.spend(timeout)
        return super().select(0)


def run_in_virtual_time(main: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine on a loop of its own."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
