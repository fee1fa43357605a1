"""A lane: engines that take batches from one queue, each as soon as it is free.

Each engine takes what is waiting the moment it is free: alone when the lane is idle, together with
all of its kind that arrived meanwhile when it is not. No request waits for a batch to fill. A
GPU takes a second batch while it is at one, to copy it meanwhile, but only if that batch is full:
what is not would gain more from those who still arrive. Only the event loop touches the queue.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import structlog

from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import Outcome
from farpoint_server.errors import EngineHungError, ServiceError
from farpoint_server.scheduling.cost import CostModel
from farpoint_server.scheduling.job import Job
from farpoint_server.scheduling.queue import JobQueue
from farpoint_server.scheduling.watchdog import HUNG, Watchdog

log = structlog.get_logger("farpoint.scheduling")


class BatchMetrics(NamedTuple):
    """Observers of each batch that an engine is given."""

    requests: Callable[[float], object] = bool
    points: Callable[[float], object] = bool
    device_requests: Callable[[float], object] = bool
    """As `requests`, for a count of each device."""
    seconds: Callable[[float], object] = bool
    """The time that it took, when it is done."""


class Lane:
    """One queue before any number of engines.

    Args:
        engines: Each runs one batch at a time, or as many as its depth.
        queue: What waits for them.
        watchdog: Counts the batches that take too long.
        index: The watchdog's index of the lane.
        costs: Learns from every batch.
        metrics: Observe every batch.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        queue: JobQueue,
        watchdog: Watchdog,
        index: int,
        costs: CostModel,
        metrics: BatchMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self.engines = engines
        self.queue = queue
        self.died = asyncio.Event()
        """Set once a worker ended by a bug, after which the queue is not served as it was."""
        self._watchdog = watchdog
        self.index = index
        self._first = index * len(engines)
        self._costs = costs
        self._metrics = metrics
        self._running = [0] * len(engines)
        self._places = sum(engine.depth for engine in engines)
        self.busy_s = 0.0
        """Seconds that its engines have been at batches, as a share of what they could be."""
        self._ends_s = [0.0] * len(engines)
        self._workers: list[asyncio.Task[None]] = []

    @property
    def is_hung(self) -> bool:
        """Whether no engine is left that could answer."""
        return self._watchdog.hung_lanes[self.index]

    @property
    def wait_ns(self) -> int:
        """Predicted nanoseconds until an engine has done what waits and runs now.

        A batch that is late is taken to need as long again, so that nothing more comes to an engine
        that hangs, long before the watchdog says so.
        """
        now = self._clock()
        running_s = min(
            abs(end_s - now) if running else 0.0
            for end_s, running in zip(self._ends_s, self._running, strict=True)
        )
        return int(running_s * 1e9) + self.queue.cost_ns // len(self.engines)

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

    async def _serve(self, engine: int) -> None:
        while True:
            jobs: list[Job] = []
            if self.queue.count and not (self._running[engine] and self._is_busy(engine)):
                jobs = self.queue.take_batch()
            if not jobs:
                self.queue.arrived.clear()
                await self.queue.arrived.wait()
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

    def _is_busy(self, engine: int) -> bool:
        """Whether an engine that is at a batch should not be given another one now."""
        return self._watchdog.late[self._first + engine] > 0 or not self.queue.has_full_batch

    async def _run(self, engine: int, jobs: Sequence[Job]) -> None:
        begun = self._clock()
        self._ends_s[engine] = begun + sum([job.cost_ns for job in jobs]) / 1e9
        batch = jobs[0].work.batch([job.work for job in jobs])
        for index, job in enumerate(jobs):
            job.place = (batch, index)
        self._metrics.requests(len(jobs))
        self._metrics.device_requests(len(jobs))
        self._metrics.points(batch.point_count)
        late: list[int] = []
        limit_s, loop = self._watchdog.limit_s, asyncio.get_running_loop()
        timer = limit_s and loop.call_later(limit_s, self._hang, engine, jobs, late)
        try:
            try:
                answers = await self.engines[engine].run(batch)
            finally:
                if timer:
                    timer.cancel()
                if late:
                    self._watchdog.count(late.pop(), -1)
        except Exception as error:
            await self._blame(engine, jobs, error)
            return
        self._answer(jobs, answers, begun)

    def _answer(self, jobs: Sequence[Job], answers: Sequence[Any], begun: float) -> None:
        compute_s = self._clock() - begun
        self.busy_s += compute_s / self._places
        self._metrics.seconds(compute_s)
        is_complete, batch_requests = True, len(jobs)
        # Paired before any is answered: with a wrong number no answer can be matched.
        for job, answer in [*zip(jobs, answers, strict=True)]:
            if isinstance(answer, ServiceError):
                is_complete = False
                job.fail(answer)
            elif job.answer.done():
                is_complete = False
            else:
                queue_ms = (begun - job.accepted) * 1e3
                job.answer.set_result(Outcome(answer, queue_ms, compute_s * 1e3, batch_requests))
                batch_requests = 0
        # A request that was cancelled, or refused for its memory, did not take its time.
        if is_complete:
            self._costs.observe([job.work for job in jobs], compute_s * 1e9)

    async def _blame(self, engine: int, jobs: Sequence[Job], error: Exception) -> None:
        """One bad request must not fail the others of its batch: each is tried again by itself."""
        if len(jobs) == 1:
            jobs[0].fail(error)
            return
        for job in jobs:
            if job.is_wanted:
                await self._run(engine, [job])

    def _hang(self, engine: int, jobs: Sequence[Job], late: list[int]) -> None:
        """A batch is late: its callers get an error, and with the last engine all that wait."""
        late.append(self._first + engine)
        self._watchdog.count(self._first + engine, 1)
        for job in [*jobs, *(self.queue.take_all() if self.is_hung else ())]:
            job.fail(EngineHungError(HUNG))
