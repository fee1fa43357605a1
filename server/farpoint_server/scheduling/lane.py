"""A lane: an engine that takes batches from a fair queue, its watchdog and its predictions.

The engine takes what is waiting the moment it is free: a request alone when the lane is idle, all
of one kind that arrived meanwhile when it is not. No request waits for a batch to fill. A GPU takes
a second batch while it is at one, to copy it meanwhile, but only if that batch is full: what is not
would gain more from requests that still arrive. Only the event loop touches the queue.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import structlog

from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import Batch, Outcome, Work
from farpoint_server.errors import EngineHungError, ServiceError

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

# Work of one caller in its turn, before the next caller's. A smaller one shares finer; a job
# that is larger waits for as many rounds as it takes.
QUANTUM_NS = 10_000_000

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


@dataclass(eq=False)
class Job:
    """One request in the queue, and then in a batch."""

    work: Work[Any]
    answer: "asyncio.Future[Outcome[Any]]"
    caller: str = ""
    """Whose turns it takes."""
    cost_ns: int = 0
    """Nanoseconds that it is predicted to run."""
    accepted: float = 0.0
    """When it came, in seconds of the batcher's clock."""
    place: tuple[Batch[Any], int] | None = None
    """The batch that it runs in, and its position there."""

    @property
    def is_wanted(self) -> bool:
        """Whether a caller still waits for the answer."""
        return not self.answer.done()

    def fail(self, error: BaseException) -> None:
        """Answers with an error, if a caller still waits."""
        if self.is_wanted:
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Cancels it in a running kernel."""
        if self.place is not None:
            batch, index = self.place
            batch.cancel(index)


class _Caller:
    """The jobs of one caller in order of arrival, and its remaining quantum."""

    __slots__ = ("cost_ns", "deficit_ns", "jobs")

    def __init__(self) -> None:
        self.jobs: OrderedDict[int, Job] = OrderedDict()
        self.cost_ns = 0
        self.deficit_ns = QUANTUM_NS

    @property
    def first(self) -> Job:
        return next(iter(self.jobs.values()))

    @property
    def has_turn(self) -> bool:
        return self.deficit_ns >= self.first.cost_ns


class RoundRobin:
    """Jobs in an order that gives every waiting caller the same time.

    Deficit round robin (Shreedhar and Varghese, 1995).
    The caller at the front runs its jobs while its deficit pays for them; then it gets another
    quantum and goes to the back. One with nothing left leaves, and its deficit with it: no
    caller saves up. So a job waits for at most as much of each other caller as its own caller has
    queued up to it, and a quantum or one job more. To add, discard or take a job is O(1); only a
    round in which no caller could pay is O(callers).
    """

    def __init__(self) -> None:
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        self.count = 0
        """Jobs that wait."""
        self.cost_ns = 0

    def __iter__(self) -> Iterator[Job]:
        """All jobs; those of a caller in order."""
        for caller in self._callers.values():
            yield from caller.jobs.values()

    @property
    def callers(self) -> int:
        """Callers with waiting jobs."""
        return len(self._callers)

    def cost_of(self, caller: str) -> int:
        """Predicted nanoseconds of a caller's jobs."""
        known = self._callers.get(caller)
        return 0 if known is None else known.cost_ns

    def add(self, job: Job) -> None:
        """Appends a job to those of its caller."""
        caller = self._callers.get(job.caller)
        if caller is None:
            caller = self._callers[job.caller] = _Caller()
        caller.jobs[id(job)] = job
        caller.cost_ns += job.cost_ns
        self._count(job, 1)

    def discard(self, job: Job) -> bool:
        """Removes a job without charging its caller; whether it was waiting."""
        caller = self._callers.get(job.caller)
        if caller is None or caller.jobs.pop(id(job), None) is None:
            return False
        caller.cost_ns -= job.cost_ns
        self._count(job, -1)
        if not caller.jobs:
            del self._callers[job.caller]
        return True

    def peek(self) -> Job:
        """The next job; at least one must wait."""
        if len(self._callers) > 1:
            self._rotate()
        return next(iter(self._callers.values())).first

    def take(self) -> Job:
        """Removes the next job and charges its caller if it still waits for the answer."""
        job = self.peek()
        caller = self._callers[job.caller]
        if not job.answer.done():
            # If no other caller waited when its turn came, it owes nothing.
            caller.deficit_ns = max(0, caller.deficit_ns - job.cost_ns)
        self.discard(job)
        return job

    def _rotate(self) -> None:
        """Moves a caller to the front that can pay for its first job."""
        for _ in range(len(self._callers)):
            name, caller = next(iter(self._callers.items()))
            if caller.has_turn:
                return
            caller.deficit_ns += QUANTUM_NS
            self._callers.move_to_end(name)
        self._skip_rounds()
        while not next(iter(self._callers.values())).has_turn:
            self._callers.move_to_end(next(iter(self._callers)))

    def _skip_rounds(self) -> None:
        """Adds the quanta of all rounds in which no caller could pay."""
        callers = self._callers.values()
        lacking = min(caller.first.cost_ns - caller.deficit_ns for caller in callers)
        rounds = max(0, -(-lacking // QUANTUM_NS))
        for caller in callers:
            caller.deficit_ns += rounds * QUANTUM_NS

    def _count(self, job: Job, sign: int) -> None:
        self.count += sign
        self.cost_ns += sign * job.cost_ns


class JobQueue:
    """Two queues: jobs that share batches and jobs that run alone.

    Alone runs what has more than half of a batch's points, or has no batch key.
    In each line callers have their turns; a batch is taken from the line whose next job is older.
    But after a job that ran alone the others have their turn: however many of the former wait, one
    of the latter waits for one of them at most, and one that runs alone for one batch of jobs that
    came later.

    Args:
        batch_points: Points after which a batch takes no further job.
        batch_ns: Predicted nanoseconds after which it takes none either; None is without limit.
    """

    def __init__(self, batch_points: int, batch_ns: int | None = None) -> None:
        self._batch_points = batch_points
        self._batch_ns = batch_ns
        self._shared = RoundRobin()
        self._alone = RoundRobin()
        self._last_was_alone = False
        self.count = 0
        """Jobs that wait."""
        self.points = 0
        """Points of them all."""
        self.arrived: asyncio.Queue[None] = asyncio.Queue(1)
        """Holds something once there may be work for one worker more."""

    @property
    def cost_ns(self) -> int:
        """Predicted nanoseconds of all jobs."""
        return self._shared.cost_ns + self._alone.cost_ns

    @property
    def has_full_batch(self) -> bool:
        """Whether the next batch is complete and would not grow."""
        if not self.count:
            return False
        return self._next_line() is self._alone or self.points >= self._batch_points

    def ahead_ns(self, job: Job) -> int:
        """Predicted nanoseconds until a new job has run.

        In its line run its caller's jobs and itself, and meanwhile as much of each other caller,
        or all that there is if that is less.
        """
        line = self._line_of(job)
        queued = line.cost_of(job.caller)
        others = line.callers - (queued > 0)
        own = queued + job.cost_ns
        return own + min(line.cost_ns - queued, others * own)

    def add(self, job: Job) -> None:
        """Adds a job."""
        self._line_of(job).add(job)
        self.count += 1
        self.points += job.work.point_count
        self.wake()

    def wake(self) -> None:
        """Wakes one waiting worker."""
        if self.arrived.empty():
            self.arrived.put_nowait(None)

    def discard(self, job: Job) -> None:
        """Removes a job if it still waits."""
        if self._line_of(job).discard(job):
            self.count -= 1
            self.points -= job.work.point_count

    def take_batch(self) -> list[Job]:
        """The next jobs, all with one batch key; empty if none wait."""
        line = self._next_line()
        self._last_was_alone = line is self._alone
        batch: list[Job] = []
        points = cost_ns = 0
        while line.count:
            job = line.peek()
            if batch and not self._may_join(job, batch, points, cost_ns):
                break
            self.count -= 1
            self.points -= line.take().work.point_count
            if not job.answer.done():
                batch.append(job)
                points += job.work.point_count
                cost_ns += job.cost_ns
        return batch

    def take_all(self) -> list[Job]:
        """Every waiting job."""
        jobs = [*self._shared, *self._alone]
        for job in jobs:
            self.discard(job)
        return jobs

    def _may_join(self, job: Job, batch: list[Job], points: int, cost_ns: int) -> bool:
        key = batch[0].work.batch_key
        is_alike = key is not None and key == job.work.batch_key
        if not is_alike or points + job.work.point_count > self._batch_points:
            return False
        return self._batch_ns is None or cost_ns + job.cost_ns <= self._batch_ns

    def _line_of(self, job: Job) -> RoundRobin:
        is_large = 2 * job.work.point_count > self._batch_points
        return self._alone if is_large or job.work.batch_key is None else self._shared

    def _next_line(self) -> RoundRobin:
        if not (self._shared.count and self._alone.count):
            return self._shared if self._shared.count else self._alone
        shared, alone = self._shared.peek(), self._alone.peek()
        if self._last_was_alone or shared.accepted <= alone.accepted:
            return self._shared
        return self._alone


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
