"""An event loop whose clock jumps to the next timer, and cores that its tasks share."""

import asyncio
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
# Of work left, below which it is done: rounding of the clock.
LEAST_S = 1e-12


class _Jump(selectors.SelectSelector):
    """Waits by moving the clock; nothing outside is listened to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the simulation waits for something that never comes")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs what asyncio runs, in no time but that of its own steps."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # Timers that are due within this are due now; asyncio's own is coarser than a request.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jump.now

    def monotonic(self) -> float:
        """By the name of `time.monotonic`, in whose place it stands for the scheduler."""
        return self._jump.now


def simulate(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine, and ends what it left running."""
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(_cancel(asyncio.all_tasks(loop)))
        loop.close()


async def _cancel(tasks: set["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(eq=False)
class _Running:
    left_s: float
    most: float
    weight: float
    done: "asyncio.Future[None]"
    rate: float = 0.0


class Cores:
    """Cores that threads share by weight, without a switch ever costing anything.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: list[_Running] = []
        self._then = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.used_s = 0.0

    async def run(self, seconds: float, threads: int = 1, weight: float = 1.0) -> None:
        """Returns when so many seconds of a core were had.

        Args:
            seconds: of one core.
            threads: that may work at it at once.
            weight: of each thread where they are more than the cores.
        """
        if seconds <= 0:
            return
        self._advance()
        done = asyncio.get_running_loop().create_future()
        self._running.append(_Running(seconds, threads, weight * threads, done))
        self.used_s += seconds
        self._share()
        await done

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        for job in self._running:
            job.left_s -= job.rate * (now - self._then)
        self._then = now

    def _share(self) -> None:
        """Gives each what its weight is worth, and what some cannot use to the others."""
        free, open_jobs = float(self._count), list(self._running)
        while open_jobs:
            unit = free / sum(job.weight for job in open_jobs)
            full = [job for job in open_jobs if job.most <= unit * job.weight]
            for job in full or open_jobs:
                job.rate = job.most if full else unit * job.weight
            if not full:
                break
            free -= sum(job.most for job in full)
            open_jobs = [job for job in open_jobs if job not in full]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._running:
            soonest = min(max(0.0, job.left_s) / job.rate for job in self._running)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._then + soonest, self._end)

    def _end(self) -> None:
        self._advance()
        ended = [job for job in self._running if job.left_s <= LEAST_S]
        self._running = [job for job in self._running if job.left_s > LEAST_S]
        for job in ended:
            job.done.set_result(None)
        self._share()
