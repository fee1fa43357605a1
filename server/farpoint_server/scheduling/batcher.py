"""Dynamic batching: one queue for every kind of work, from which each free engine takes a batch.

Each engine takes what is waiting the moment it is free: alone when the server is idle, together
with all of its kind that arrived meanwhile when it is not. Nobody is made to wait for a batch to
fill. Small work that meets an idle engine of a CPU is not queued at all (see engine/thread.py). A
GPU takes a second batch while it is at one, to copy it meanwhile, but only if that batch is full:
what is not would gain more from those who still arrive. Only the event loop touches the queue.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import structlog

from farpoint_server.engine.types import Answer, Batch, Outcome, Work
from farpoint_server.errors import DeadlinePassedError, EngineHungError, ServiceError
from farpoint_server.scheduling.queue import Job, JobQueue
from farpoint_server.scheduling.watchdog import HUNG, Watchdog

log = structlog.get_logger("farpoint.scheduling")


class BatchRunner(Protocol):
    """An engine as the batcher sees it; see engine/engine.py."""

    @property
    def depth(self) -> int:
        """Batches that it may be given at a time."""
        ...

    def run(self, batch: Batch[Answer]) -> Coroutine[Any, Any, list[Answer | ServiceError]]:
        """The answer to each request of a batch, in order, or what is said to it instead."""
        ...

    def run_inline_if_idle(self, work: Work[Answer]) -> Answer | None:
        """The answer to a small request, at once; None if it has to wait."""
        ...


class Batcher:
    """One queue before any number of engines.

    Args:
        engines: Each runs one batch at a time, or as many as its depth.
        batch_points: Points after which a batch takes no further request; a request that is
            larger by itself makes a batch of its own.
        watchdog: Told of every batch that runs; one without limit if None.
    """

    def __init__(
        self,
        engines: Sequence[BatchRunner],
        batch_points: int,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._engines = engines
        self._queue = JobQueue(batch_points)
        self._watchdog = watchdog or Watchdog(None, len(engines))
        self._arrived = asyncio.Event()
        self._died = asyncio.Event()
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

    async def died(self) -> None:
        """Returns once a worker ended by a bug, after which the queue is not served as it was."""
        await self._died.wait()

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """Does work that is small at once, if an engine is idle; queues other work.

        When the caller is cancelled or its time is over, its work leaves the queue, or the kernel
        that is at it.

        Args:
            work: One request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            DeadlinePassedError: the work was not done in time.
            OverloadedError: there is not enough memory now.
            EngineHungError: no engine answers.
            DeviceFailedError: the device works no more.
        """
        if self._watchdog.all_hung:
            raise EngineHungError(HUNG)
        if not len(self._queue) and (timeout_s is None or timeout_s > 0):
            begun = time.monotonic()
            for engine in self._engines:
                answer = engine.run_inline_if_idle(work)
                if answer is not None:
                    return Outcome(answer, 0.0, (time.monotonic() - begun) * 1e3)
        return await self._enqueue(work, timeout_s)

    async def _enqueue(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        loop = asyncio.get_running_loop()
        job = Job(work, loop.create_future())
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
            if not jobs:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            self._running[engine] += 1
            try:
                await self._run(engine, jobs)
            except Exception as error:
                log.exception("worker died", engine=engine)
                self._died.set()
                for job in jobs:
                    job.fail(error)
                raise
            self._running[engine] -= 1

    def _take(self, engine: int) -> list[Job]:
        is_hung = self._watchdog.is_hung(engine)
        if self._running[engine] and (is_hung or not self._queue.has_full_batch):
            return []
        return self._queue.take_batch()

    async def _run(self, engine: int, jobs: Sequence[Job]) -> None:
        begun = time.monotonic()
        batch = jobs[0].work.batch([job.work for job in jobs])
        for index, job in enumerate(jobs):
            job.place = (batch, index)
        try:
            answers = await self._watch(engine, batch, jobs)
        except Exception as error:
            await self._blame(engine, jobs, error)
            return
        compute_ms = (time.monotonic() - begun) * 1e3
        # Paired before any is told: of a wrong number nobody knows whose answer is whose.
        for job, answer in [*zip(jobs, answers, strict=True)]:
            if isinstance(answer, ServiceError):
                job.fail(answer)
            elif job.is_wanted:
                queue_ms = (begun - job.accepted) * 1e3
                job.answer.set_result(Outcome(answer, queue_ms, compute_ms))

    async def _blame(self, engine: int, jobs: Sequence[Job], error: Exception) -> None:
        """One bad request must not fail the others of its batch: each is tried again by itself."""
        if len(jobs) == 1:
            jobs[0].fail(error)
            return
        for job in jobs:
            if job.is_wanted:
                await self._run(engine, [job])

    async def _watch(
        self, engine: int, batch: Batch[Any], jobs: Sequence[Job]
    ) -> list[Any | ServiceError]:
        def tell() -> None:
            for job in [*jobs, *(self._queue.take_all() if self._watchdog.all_hung else ())]:
                job.fail(EngineHungError(HUNG))

        return await self._watchdog.watch(engine, self._engines[engine].run(batch), tell)


def _expire(job: Job) -> None:
    job.fail(DeadlinePassedError("the deadline passed before the work ended"))
