"""How accepted work is cut into batches, and what happens to those who no longer wait.

Each engine takes what is waiting the moment it is free: alone when the server is idle, together
with all that arrived meanwhile when it is not. Nobody is made to wait for a batch to fill. Small
work (see small_work.py) that meets an idle engine of a CPU is not queued at all. A card takes a
second batch while it is at one, to copy it meanwhile, but only if that batch is full: what is not
would gain more from those who still arrive. Only the event loop touches the queue.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from farpoint_server.engine.types import Batch, Clouds, Outcome, Samples
from farpoint_server.errors import DeadlinePassedError, EngineHungError, ServiceError
from farpoint_server.scheduling.queue import Job, JobQueue
from farpoint_server.scheduling.small_work import FEW_CORES_NS, is_small
from farpoint_server.scheduling.watchdog import HUNG, Watchdog


class Engine(Protocol):
    """What runs batches; see engine.py."""

    @property
    def depth(self) -> int:
        """Batches that it may be given at a time."""
        ...

    def sample(self, batch: Batch) -> Coroutine[Any, Any, list[Samples | ServiceError]]:
        """The samples of each request of a batch, in order, or what is said to it instead."""
        ...

    def sample_here(self, clouds: Clouds) -> Samples | None:
        """The samples of a small request, at once; None if the engine is at something."""
        ...


class Batcher:
    """One queue before any number of engines.

    Args:
        engines: Each runs one batch at a time, or as many as its depth.
        batch_points: Points after which a batch takes no further request; a request that is
            larger by itself makes a batch of its own.
        watchdog: Told of every batch that runs; one without limit if None.
        small_ns: Work that a kernel is reckoned to do in this time is done on the event loop if an
            engine of a CPU is idle.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        batch_points: int,
        watchdog: Watchdog | None = None,
        small_ns: int = FEW_CORES_NS,
    ) -> None:
        self._engines = engines
        self._queue = JobQueue(batch_points)
        self._watchdog = watchdog or Watchdog(None, len(engines))
        self._small_ns = small_ns
        self._arrived = asyncio.Event()
        self._running = [0] * len(engines)
        self._workers: list[asyncio.Task[None]] = []

    @property
    def waiting_requests(self) -> int:
        """Requests that no engine has begun."""
        return len(self._queue)

    @property
    def waiting_points(self) -> int:
        """Points of the requests that no engine has begun."""
        return self._queue.points

    def start(self) -> None:
        """Begins to serve the queue."""
        self._workers = [
            asyncio.create_task(self._serve(position))
            for position, engine in enumerate(self._engines)
            for _ in range(engine.depth)
        ]

    async def stop(self) -> None:
        """Ends the workers; what still waits is never answered."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def sample(self, clouds: Clouds, timeout_s: float | None) -> Outcome:
        """Does work that is small at once, if an engine is idle; queues other work.

        When the caller is cancelled or its time is over, its work leaves the queue, or the kernel
        that is at it.

        Args:
            clouds: The work.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            DeadlinePassedError: the work was not done in time.
            EngineHungError: no engine answers.
        """
        self._check_engines()
        in_time = timeout_s is None or timeout_s > 0
        if in_time and not len(self._queue) and is_small(clouds, self._small_ns):
            outcome = self._sample_here(clouds)
            if outcome is not None:
                return outcome
        return await self._queue_up(clouds, timeout_s)

    def _sample_here(self, clouds: Clouds) -> Outcome | None:
        begun = time.monotonic()
        for engine, batches in zip(self._engines, self._running, strict=True):
            samples = None if batches else engine.sample_here(clouds)
            if samples is not None:
                return Outcome(samples, 0.0, (time.monotonic() - begun) * 1e3)
        return None

    async def _queue_up(self, clouds: Clouds, timeout_s: float | None) -> Outcome:
        loop = asyncio.get_running_loop()
        job = Job(clouds, loop.create_future())
        timer = None if timeout_s is None else loop.call_later(timeout_s, _expire, job)
        self._queue.add(job)
        self._arrived.set()
        try:
            return await job.answer
        finally:
            if timer is not None:
                timer.cancel()
            self._queue.discard(job)
            job.give_up()

    async def _serve(self, engine: int) -> None:
        while True:
            jobs = self._take(engine)
            if jobs:
                self._running[engine] += 1
                await self._run(engine, jobs)
                self._running[engine] -= 1
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def _take(self, engine: int) -> list[Job]:
        if self._running[engine] and not self._queue.has_full_batch:
            return []
        return self._queue.take_batch()

    async def _run(self, engine: int, jobs: Sequence[Job]) -> None:
        begun = time.monotonic()
        batch = Batch([job.clouds for job in jobs])
        for index, job in enumerate(jobs):
            job.place = (batch, index)
        try:
            samples = await self._watch(engine, batch, jobs)
        except Exception as error:
            await self._blame(engine, jobs, error)
            return
        compute_ms = (time.monotonic() - begun) * 1e3
        for job, result in zip(jobs, samples, strict=True):
            if not job.is_wanted:
                continue
            if isinstance(result, ServiceError):
                job.answer.set_exception(result)
            else:
                queue_ms = (begun - job.accepted) * 1e3
                job.answer.set_result(Outcome(result, queue_ms, compute_ms))

    async def _blame(self, engine: int, jobs: Sequence[Job], error: Exception) -> None:
        """One bad request must not fail its neighbors: each is tried again by itself."""
        if len(jobs) > 1:
            for job in jobs:
                if job.is_wanted:
                    await self._run(engine, [job])
        elif jobs[0].is_wanted:
            jobs[0].answer.set_exception(error)

    async def _watch(
        self, engine: int, batch: Batch, jobs: Sequence[Job]
    ) -> list[Samples | ServiceError]:
        def tell() -> None:
            for job in [*jobs, *(self._queue.take_all() if self._watchdog.all_hung else ())]:
                if job.is_wanted:
                    job.answer.set_exception(EngineHungError(HUNG))

        return await self._watchdog.watch(engine, self._engines[engine].sample(batch), tell)

    def _check_engines(self) -> None:
        if self._watchdog.all_hung:
            raise EngineHungError(HUNG)


def _expire(job: Job) -> None:
    if job.is_wanted:
        job.answer.set_exception(DeadlinePassedError("the deadline passed before the work ended"))
