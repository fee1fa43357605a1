"""Deficit round robin (Shreedhar and Varghese, 1995) over callers, by predicted time."""

from collections import OrderedDict
from collections.abc import Iterator

from farpoint_server.scheduling.job import Job

# What a caller may run at its turn before the next one has its own. Smaller shares finer; a job
# that is larger waits for as many rounds as it takes.
QUANTUM_NS = 10_000_000


class _Caller:
    """The jobs of one caller, first come, first served, and what it may still run."""

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
    """Jobs in an order in which every caller who waits gets the same time.

    The caller at the front runs its jobs while its deficit pays for them; then it gets another
    quantum and goes to the back. One with nothing left leaves, and its deficit with it: nobody
    saves up. So a job waits for at most as much of each other caller as its own caller has queued
    up to it, and a quantum or one job more. To add, discard or take a job is O(1); only a round in
    which nobody could pay is O(callers).
    """

    def __init__(self) -> None:
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        self.count = 0
        """Jobs that wait."""
        self.points = 0
        self.cost_ns = 0

    def __iter__(self) -> Iterator[Job]:
        """All jobs, those of a caller in their order."""
        for caller in self._callers.values():
            yield from caller.jobs.values()

    @property
    def callers(self) -> int:
        """Callers who wait."""
        return len(self._callers)

    def cost_of(self, caller: str) -> int:
        """Predicted nanoseconds of a caller's jobs."""
        known = self._callers.get(caller)
        return 0 if known is None else known.cost_ns

    def add(self, job: Job) -> None:
        """Puts a job behind those of its caller."""
        caller = self._callers.get(job.caller)
        if caller is None:
            caller = self._callers[job.caller] = _Caller()
        caller.jobs[id(job)] = job
        caller.cost_ns += job.cost_ns
        self._count(job, 1)

    def discard(self, job: Job) -> None:
        """Takes a job out, if it still waits; its caller pays nothing."""
        caller = self._callers.get(job.caller)
        if caller is None or caller.jobs.pop(id(job), None) is None:
            return
        caller.cost_ns -= job.cost_ns
        self._count(job, -1)
        if not caller.jobs:
            del self._callers[job.caller]

    def peek(self) -> Job:
        """The job whose turn it is; at least one must wait."""
        if len(self._callers) > 1:
            self._rotate()
        return next(iter(self._callers.values())).first

    def take(self) -> Job:
        """Takes that job out, and has its caller pay if somebody still waits for the answer."""
        job = self.peek()
        caller = self._callers[job.caller]
        if not job.answer.done():
            # Nobody else may have waited when its turn came; then it owes nothing.
            caller.deficit_ns = max(0, caller.deficit_ns - job.cost_ns)
        self.discard(job)
        return job

    def _rotate(self) -> None:
        """Brings a caller to the front who can pay for its first job."""
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
        """Adds at once the quanta of all rounds in which nobody could pay yet."""
        callers = self._callers.values()
        lacking = min(caller.first.cost_ns - caller.deficit_ns for caller in callers)
        rounds = max(0, -(-lacking // QUANTUM_NS))
        for caller in callers:
            caller.deficit_ns += rounds * QUANTUM_NS

    def _count(self, job: Job, sign: int) -> None:
        self.count += sign
        self.points += sign * job.work.point_count
        self.cost_ns += sign * job.cost_ns
