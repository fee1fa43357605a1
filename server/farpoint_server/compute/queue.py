"""Fair queues of requests, from which batches form; only the event loop touches them."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.work import Outcome, Work

# Work of one caller in its turn, before the next caller's. A smaller one shares finer; a job
# that is larger waits for as many rounds as it takes.
QUANTUM_NS = 10_000_000
# Predicted time of a request to a model, below which two batches at a time are slower than one
# after the other on two cores: both wait for Python's lock, and for the core of the event loop.
SMALL_NS = 1_400_000


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
    """When it came, in seconds of the scheduler's clock."""
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

    def charge(self, caller: str, cost_ns: int) -> None:
        """Charges a caller for work that took longer than predicted, if others wait with it."""
        if caller in self._callers and len(self._callers) > 1:
            self._callers[caller].deficit_ns -= cost_ns

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

    A job runs alone if it has more than half of a batch's points, or no batch key. In each queue
    callers take turns. The queue whose next job is older comes first, but after a job that ran
    alone the shared ones do: neither waits for more than one of the other.

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
    def is_small(self) -> bool:
        """Whether all that waits is a part of a batch, of small requests to a model."""
        if self._batch_ns is None or self.cost_ns >= self._batch_ns:
            return False
        job = self._next_line().peek()
        return job.work.uses_openmp and job.cost_ns < SMALL_NS

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

    def charge(self, job: Job, cost_ns: int) -> None:
        """Charges the caller of a job that took longer than predicted."""
        self._line_of(job).charge(job.caller, cost_ns)

    def take_all(self) -> list[Job]:
        """Every waiting job."""
        jobs = [*self._shared, *self._alone]
        for job in jobs:
            self.discard(job)
        return jobs

    def _may_join(self, job: Job, batch: list[Job], points: int, cost_ns: int) -> bool:
        key, points = batch[0].work.batch_key, points + job.work.point_count
        if key is None or key != job.work.batch_key or points > self._batch_points:
            return False
        if self._batch_ns is None or points <= job.work.few_points:
            return True
        return cost_ns + job.cost_ns <= self._batch_ns

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
