"""The queue of one lane: jobs that wait for an engine, and how batches are made of them."""

from farpoint_server.scheduling.job import Job
from farpoint_server.scheduling.round_robin import RoundRobin


class JobQueue:
    """Two lines, for jobs that share batches and for jobs that run alone.

    Alone runs what has more than half of a batch's points, or is of a kind that shares no launch.
    In each line callers have their turns (see round_robin.py); a batch is taken from the line whose
    next job is older. But after a job that ran alone the others have their turn: however many of
    the former wait, one of the latter waits for one of them at most, and one that runs alone for
    one batch of jobs that came later.

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

    def __len__(self) -> int:
        return self._shared.count + self._alone.count

    @property
    def points(self) -> int:
        """Points of all jobs."""
        return self._shared.points + self._alone.points

    @property
    def has_full_batch(self) -> bool:
        """Whether the next batch is there already, and would not be larger later."""
        if not len(self):
            return False
        return self._next_line() is self._alone or self.points >= self._batch_points

    def ahead_ns(self, job: Job) -> int:
        """Predicted nanoseconds until a job that arrives now has run, if all wait alike.

        In its line run its caller's jobs and itself, and meanwhile as much of each other caller,
        or all that there is if that is less.
        """
        line = self._line_of(job)
        queued = line.cost_of(job.caller)
        others = line.callers - (queued > 0)
        own = queued + job.cost_ns
        return own + min(line.cost_ns - queued, others * own)

    def add(self, job: Job) -> None:
        self._line_of(job).add(job)

    def discard(self, job: Job) -> None:
        """Takes a job out, if it still waits."""
        self._line_of(job).discard(job)

    def take_batch(self) -> list[Job]:
        """The jobs whose turn it is, all of one kind; empty when nobody waits."""
        line = self._next_line()
        self._last_was_alone = line is self._alone
        batch: list[Job] = []
        points = cost_ns = 0
        while line.count:
            job = line.peek()
            if batch and not self._may_join(job, batch, points, cost_ns):
                break
            line.take()
            if not job.answer.done():
                batch.append(job)
                points += job.work.point_count
                cost_ns += job.cost_ns
        return batch

    def take_all(self) -> list[Job]:
        """Every job that waits."""
        jobs = [*self._shared, *self._alone]
        for job in jobs:
            self.discard(job)
        return jobs

    def _may_join(self, job: Job, batch: list[Job], points: int, cost_ns: int) -> bool:
        is_alike = job.work.shares_launch and type(job.work) is type(batch[0].work)
        if not is_alike or points + job.work.point_count > self._batch_points:
            return False
        return self._batch_ns is None or cost_ns + job.cost_ns <= self._batch_ns

    def _line_of(self, job: Job) -> RoundRobin:
        is_large = 2 * job.work.point_count > self._batch_points
        return self._alone if is_large or not job.work.shares_launch else self._shared

    def _next_line(self) -> RoundRobin:
        if not (self._shared.count and self._alone.count):
            return self._shared if self._shared.count else self._alone
        shared, alone = self._shared.peek(), self._alone.peek()
        if self._last_was_alone or shared.accepted <= alone.accepted:
            return self._shared
        return self._alone
