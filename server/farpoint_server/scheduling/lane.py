"""A lane: engines that take batches from one queue, each as soon as it is free.

Each engine takes what is waiting the moment it is free: alone when the lane is idle, together with
all of its kind that arrived meanwhile when it is not. Nobody is made to wait for a batch to fill. A
GPU takes a second batch while it is at one, to copy it meanwhile, but only if that batch is full:
what is not would gain more from those who still arrive. Only the event loop touches the queue.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import structlog

from farpoint_server.engine.types import Answer, Batch, Outcome, Work
from farpoint_server.errors import EngineHungError, ServiceError
from farpoint_server.scheduling.cost import CostModel
from farpoint_server.scheduling.job import Job
from farpoint_server.scheduling.queue import JobQueue
from farpoint_server.scheduling.watchdog import HUNG, Watchdog

log = structlog.get_logger("farpoint.scheduling")


class BatchRunner(Protocol):
    """An engine as the scheduler sees it; see engine/engine.py."""

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


class Lane:
    """One queue before any number of engines.

    Args:
        engines: Each runs one batch at a time, or as many as its depth.
        queue: What waits for them.
        watchdog: Told of every batch that runs.
        first: The watchdog's position of the first engine; the others follow.
        costs: Learns from every batch.
    """

    def __init__(
        self,
        engines: Sequence[BatchRunner],
        queue: JobQueue,
        watchdog: Watchdog,
        first: int,
        costs: CostModel,
    ) -> None:
        self.engines = engines
        self.queue = queue
        self.died = asyncio.Event()
        """Set once a worker ended by a bug, after which the queue is not served as it was."""
        self._watchdog = watchdog
        self._first = first
        self._costs = costs
        self._arrived = asyncio.Event()
        self._running = [0] * len(engines)
        self._workers: list[asyncio.Task[None]] = []

    @property
    def is_hung(self) -> bool:
        """Whether no engine is left that could answer."""
        return self._watchdog.are_hung(self._positions)

    def start(self) -> None:
        """Begins to serve the queue."""
        self._workers = [
            asyncio.create_task(self._serve(position))
            for position, engine in enumerate(self.engines)
            for _ in range(engine.depth)
        ]

    async def stop(self) -> None:
        """Ends the workers; what still waits is never answered."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def add(self, job: Job) -> None:
        """Has a job wait."""
        self.queue.add(job)
        self._arrived.set()

    @property
    def _positions(self) -> range:
        return range(self._first, self._first + len(self.engines))

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
                log.exception("worker died", engine=self._first + engine)
                self.died.set()
                for job in jobs:
                    job.fail(error)
                raise
            self._running[engine] -= 1

    def _take(self, engine: int) -> list[Job]:
        is_hung = self._watchdog.late[self._first + engine] > 0
        if self._running[engine] and (is_hung or not self.queue.has_full_batch):
            return []
        return self.queue.take_batch()

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
        compute_s = time.monotonic() - begun
        self._learn(jobs, answers, compute_s)
        batch_requests = len(jobs)
        # Paired before any is told: of a wrong number nobody knows whose answer is whose.
        for job, answer in [*zip(jobs, answers, strict=True)]:
            if isinstance(answer, ServiceError):
                job.fail(answer)
            elif not job.answer.done():
                queue_ms = (begun - job.accepted) * 1e3
                job.answer.set_result(Outcome(answer, queue_ms, compute_s * 1e3, batch_requests))
                batch_requests = 0

    def _learn(self, jobs: Sequence[Job], answers: Sequence[object], compute_s: float) -> None:
        # What was given up, or refused for its memory, did not take its time.
        if not any(job.answer.done() for job in jobs) and not any(
            isinstance(answer, ServiceError) for answer in answers
        ):
            self._costs.observe([job.work for job in jobs], compute_s * 1e9)

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
            for job in [*jobs, *(self.queue.take_all() if self.is_hung else ())]:
                job.fail(EngineHungError(HUNG))

        position = self._first + engine
        return await self._watchdog.watch(position, self.engines[engine].run(batch), tell)
