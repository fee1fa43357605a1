"""A lane: a queue, the engine that takes batches from it, and what is learned from them.

The engine takes what is waiting the moment it is free: a request alone when the lane is idle, all
of one kind that arrived meanwhile when it is not. No request waits for a batch to fill. Only the
event loop touches the queue.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import structlog

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cost import CostModel
from farpoint_server.compute.engine import Engine
from farpoint_server.compute.queue import Job, JobQueue
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import EngineHungError, ServiceError

# A job that took so many times as long as predicted is charged for the rest.
EXCESS = 2
HUNG = "the engine does not answer; use another server"
log = structlog.get_logger("farpoint.compute")


def _ignore(_: float) -> None: ...


class BatchMetrics(NamedTuple):
    """Observers of each batch of an engine."""

    requests: Callable[[float], object] = _ignore
    points: Callable[[float], object] = _ignore
    device_requests: Callable[[float], object] = _ignore
    """As `requests`, for a count of each device."""
    seconds: Callable[[float], object] = _ignore
    """The time that it took, when it is done."""

    def begin(self, requests: int, points: int) -> None:
        """Counts a batch as it begins."""
        self.requests(requests)
        self.device_requests(requests)
        self.points(points)


class Watchdog:
    """Counts the batches of a device that exceed their time limit.

    A thread in a kernel or a driver cannot be ended from outside. The callers get an error, health
    is NOT_SERVING once no device is left, so that an orchestrator restarts the process, and work
    goes on if the engine does come back.

    Args:
        limit_s: Seconds that a batch may run; None is without limit.
        report: Called with False when an engine hangs, and with True when none hangs any more.
    """

    def __init__(
        self, limit_s: float | None, report: Callable[[bool], None] = lambda _: None
    ) -> None:
        self.limit_s = limit_s
        self.late = [0, 0]
        """Batches that the engine of each lane is late with, as many as its depth at most."""
        self._report = report

    def count(self, lane: int, late: int) -> None:
        """Counts one late batch more, or one fewer."""
        before = any(self.late)
        self.late[lane] += late
        if late > 0:
            log.error("engine hung", lane=lane, limit_s=self.limit_s)
        else:
            log.warning("engine recovered", lane=lane)
        if any(self.late) != before:
            self._report(before)


class Lane:
    """One queue of one engine.

    Args:
        engine: Runs one batch at a time, or as many as its depth.
        queue: What waits for it.
        watchdog: Counts the batches that take too long.
        index: The watchdog's index of the lane.
        costs: Learns from every batch.
        metrics: Observe every batch.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        engine: Engine,
        queue: JobQueue,
        watchdog: Watchdog,
        index: int,
        costs: CostModel,
        metrics: BatchMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self.engine = engine
        self.queue = queue
        self._watchdog = watchdog
        self._index = index
        self._costs = costs
        self._metrics = metrics
        self._running = 0
        self._predicted_s = 0.0
        """Of the batches that run."""
        self._since_s = 0.0
        """When the last of them ended, or the first of those that run began."""
        self._workers: list[asyncio.Task[None]] = []

    @property
    def is_hung(self) -> bool:
        """Whether the engine is late with a batch."""
        return self._watchdog.late[self._index] > 0

    @property
    def wait_ns(self) -> int:
        """Predicted nanoseconds until the engine has finished all waiting and running work.

        A batch that is late is taken to need as long again, so that nothing more comes to an engine
        that hangs, long before the watchdog says so.
        """
        at_once, running_s = self.engine.at_once, 0.0
        if self._running >= at_once:
            running_s = abs(self._predicted_s / at_once - (self._clock() - self._since_s))
        return int(running_s * 1e9) + self.queue.cost_ns // at_once

    def start(self) -> None:
        """Starts to serve the queue."""
        self._workers = [asyncio.create_task(self._serve()) for _ in range(self.engine.depth)]

    async def stop(self) -> None:
        """Ends the workers; waiting requests are never answered."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _serve(self) -> None:
        while True:
            if not (self._may_begin() and self.engine.is_ready(self.queue.wake)):
                await self.queue.arrived.get()
                continue
            jobs = self.queue.take_batch()
            if self.queue.count:
                self.queue.wake()
            if not jobs:
                continue
            predicted_s = sum([job.cost_ns for job in jobs]) / 1e9
            if not self._running:
                self._since_s = self._clock()
            self._running += 1
            self._predicted_s += predicted_s
            try:
                await self._run(jobs)
            except Exception as error:  # a bug, which costs this batch alone
                log.exception("batch failed", lane=self._index)
                for job in jobs:
                    job.fail(error)
            self._running -= 1
            self._predicted_s -= predicted_s
            self._since_s = self._clock()
            del jobs  # nothing of a batch is kept while the worker waits
            # A small batch ends without a pause of this task, and others may have come meanwhile.
            await asyncio.sleep(0)

    def _may_begin(self) -> bool:
        """Whether there is work, and a thread for it.

        The last of several threads takes the event loop's core, so it runs no small batches of
        models: they wait for the end of another one, and are joined.
        """
        room = self.engine.depth - self._running
        if not (self.queue.count and room):
            return False
        return room > 1 or self.engine.at_once == 1 or not self.queue.is_small

    async def _run(self, jobs: Sequence[Job]) -> None:
        begun = self._clock()
        batch = Batch([job.work for job in jobs])
        for index, job in enumerate(jobs):
            job.place = (batch, index)
        self._metrics.begin(len(jobs), batch.point_count)
        late: list[bool] = []
        limit_s, loop = self._watchdog.limit_s, asyncio.get_running_loop()
        timer = limit_s and loop.call_later(limit_s, self._hang, jobs, late)
        try:
            try:
                answers = await self.engine.submit(batch)
            finally:
                if timer:
                    timer.cancel()
                if late:
                    self._watchdog.count(self._index, -1)
        except Exception as error:
            await self._blame(jobs, error)
            return
        self._answer(jobs, answers, begun, batch.cpu_s)

    def _answer(
        self, jobs: Sequence[Job], answers: Sequence[Any], begun: float, cpu_s: float | None
    ) -> None:
        now = self._clock()
        compute_s = own_s = occupied_s = now - begun
        if cpu_s is not None:
            own_s = occupied_s = cpu_s
        elif self.engine.depth > self.engine.at_once:
            # The ones before it were not done at its start.
            occupied_s = now - max(begun, self._since_s)
        self._metrics.seconds(compute_s)
        is_complete = True
        # Paired before any is answered: with a wrong number no answer can be matched.
        for job, answer in [*zip(jobs, answers, strict=True)]:
            if isinstance(answer, ServiceError):
                is_complete = False
                job.fail(answer)
            elif job.answer.done():
                is_complete = False
            else:
                queue_ms = (begun - job.accepted) * 1e3
                job.answer.set_result(Outcome(answer, queue_ms, compute_s * 1e3))
        # A request that was cancelled, or refused for its memory, did not take its time.
        if is_complete:
            self._costs.observe([job.work for job in jobs], occupied_s * 1e9, own_s * 1e9)
        if len(jobs) == 1 and own_s > EXCESS * jobs[0].cost_ns / 1e9:
            self.queue.charge(jobs[0], int(own_s * 1e9) - jobs[0].cost_ns)

    async def _blame(self, jobs: Sequence[Job], error: Exception) -> None:
        """Retries each request of a failed batch alone, so that a bad one fails only itself."""
        if len(jobs) == 1:
            jobs[0].fail(error)
            return
        for job in jobs:
            if job.is_wanted:
                await self._run([job])

    def _hang(self, jobs: Sequence[Job], late: list[bool]) -> None:
        """Fails the callers of a late batch and all waiting ones."""
        late.append(True)
        self._watchdog.count(self._index, 1)
        for job in [*jobs, *self.queue.take_all()]:
            job.fail(EngineHungError(HUNG))
