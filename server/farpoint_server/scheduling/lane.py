"""A lane: an engine that takes batches from a queue, its watchdog and its predictions.

The engine takes what is waiting the moment it is free: a request alone when the lane is idle, all
of one kind that arrived meanwhile when it is not. No request waits for a batch to fill. A GPU takes
a second batch while it is at one, to copy it meanwhile, but only if that batch is full: what is not
would gain more from requests that still arrive. Only the event loop touches the queue.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import structlog

from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import Outcome, Work
from farpoint_server.errors import EngineHungError, ServiceError
from farpoint_server.scheduling.queue import Job, JobQueue

HUNG = "the engine does not answer; use another server"
log = structlog.get_logger("farpoint.scheduling")
# Shorter batches say more of the way to the engine's thread than of the work.
MIN_NS = 2_000_000
# Of a batch against all before it: some ten batches are remembered.
WEIGHT = 0.1
# However wrong an estimate is or a machine is loaded, work is not taken for nothing or for ever.
MIN_RATIO, MAX_RATIO = 1 / 16, 16.0
# Batches after which a correction is trusted to refuse anything.
KNOWN = 5

_Class: TypeAlias = tuple[str, int]


@dataclass
class _Ratio:
    """Ratio of measured to estimated time, decaying sums, so that long batches weigh more."""

    measured: float = 0.0
    estimated: float = 0.0
    batches: int = 0

    @property
    def value(self) -> float:
        if not self.estimated:
            return 1.0
        return min(max(self.measured / self.estimated, MIN_RATIO), MAX_RATIO)

    def add(self, measured: float, estimated: float) -> None:
        """Adds a batch or its part."""
        self.measured += measured - WEIGHT * self.measured
        self.estimated += estimated - WEIGHT * self.estimated
        self.batches += 1


class CostModel:
    """A running ratio of measured to estimated time for each cost key and each size of work.

    What a large cloud waits for memory says nothing of a small one, so what is of about the same
    estimated time, to within a factor of four, has a ratio of its own. A device that runs the
    requests of a batch in parallel takes less for each than for one alone, which therefore
    has a ratio of its own too.

    Args:
        estimate_ns: The estimated time of work on the device before anything was measured.
    """

    def __init__(self, estimate_ns: Callable[[Work[Any]], int] = attrgetter("cost_ns")) -> None:
        self._estimate_ns = estimate_ns
        self._ratios: dict[_Class, _Ratio] = {}
        self._alone: dict[_Class, _Ratio] = {}

    def predict_ns(self, work: Work[Any]) -> int:
        """Predicted nanoseconds for which work occupies the device."""
        return self._predict(self._ratios, work)

    def predict_alone_ns(self, work: Work[Any]) -> int:
        """Predicted nanoseconds from the start of work to its end."""
        return self._predict(self._alone, work)

    def is_known(self, work: Work[Any]) -> bool:
        """Whether enough similar work was measured for a reliable prediction."""
        ratio = self._ratios.get(_class_of(work, self._estimate_ns(work)))
        return ratio is not None and ratio.batches >= KNOWN

    def observe(self, batch: Sequence[Work[Any]], measured_ns: float) -> None:
        """Learns from a batch without cancelled requests."""
        estimates = [self._estimate_ns(work) for work in batch]
        total = sum(estimates)
        if total < MIN_NS:
            return
        estimated: dict[_Class, int] = {}
        for work, estimate in zip(batch, estimates, strict=True):
            key = _class_of(work, estimate)
            estimated[key] = estimated.get(key, 0) + estimate
        for ratios in (self._ratios, self._alone) if len(batch) == 1 else (self._ratios,):
            for key, part in estimated.items():
                ratios.setdefault(key, _Ratio()).add(measured_ns * part / total, part)

    def _predict(self, ratios: Mapping[_Class, _Ratio], work: Work[Any]) -> int:
        estimate = self._estimate_ns(work)
        ratio = ratios.get(_class_of(work, estimate))
        return estimate if ratio is None else int(ratio.value * estimate)


def _class_of(work: Work[Any], estimate_ns: int) -> _Class:
    return work.cost_key, estimate_ns.bit_length() // 2


class BatchMetrics(NamedTuple):
    """Observers of each batch of an engine."""

    requests: Callable[[float], object] = bool
    points: Callable[[float], object] = bool
    device_requests: Callable[[float], object] = bool
    """As `requests`, for a count of each device."""
    seconds: Callable[[float], object] = bool
    """The time that it took, when it is done."""


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
        self.died = asyncio.Event()
        """Set once a worker ended by a bug, after which the queue is not served as it was."""
        self._watchdog = watchdog
        self._index = index
        self._costs = costs
        self._metrics = metrics
        self._running = 0
        self.busy_s = 0.0
        """Seconds that the engine has been at batches, as a share of what it could be."""
        self._end_s = 0.0
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
        at_once = self.engine.at_once
        running_s = abs(self._end_s - self._clock()) if self._running >= at_once else 0.0
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
            has_room = self._running < self.engine.at_once
            if not (self.queue.count and (has_room or self.queue.has_full_batch)):
                await self.queue.arrived.get()
                continue
            jobs = self.queue.take_batch()
            if self.queue.count:
                self.queue.wake()
            if not jobs:
                continue
            self._running += 1
            try:
                await self._run(jobs)
            except Exception as error:
                log.exception("worker died", lane=self._index)
                self.died.set()
                for job in jobs:
                    job.fail(error)
                raise
            self._running -= 1
            del jobs  # nothing of a batch is kept while the worker waits

    async def _run(self, jobs: Sequence[Job]) -> None:
        begun = self._clock()
        self._end_s = begun + sum([job.cost_ns for job in jobs]) / 1e9
        batch = jobs[0].work.batch([job.work for job in jobs])
        for index, job in enumerate(jobs):
            job.place = (batch, index)
        self._metrics.requests(len(jobs))
        self._metrics.device_requests(len(jobs))
        self._metrics.points(batch.point_count)
        late: list[bool] = []
        limit_s, loop = self._watchdog.limit_s, asyncio.get_running_loop()
        timer = limit_s and loop.call_later(limit_s, self._hang, jobs, late)
        try:
            try:
                answers = await self.engine.run(batch)
            finally:
                if timer:
                    timer.cancel()
                if late:
                    self._watchdog.count(self._index, -1)
        except Exception as error:
            await self._blame(jobs, error)
            return
        self._answer(jobs, answers, begun)

    def _answer(self, jobs: Sequence[Job], answers: Sequence[Any], begun: float) -> None:
        compute_s = self._clock() - begun
        self.busy_s += compute_s / self.engine.depth
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
            self._costs.observe([job.work for job in jobs], compute_s * 1e9)

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
