"""The queue of jobs that wait for an engine, and the order in which they are taken."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from farpoint_server.engine.types import Batch, Outcome, Work


@dataclass(eq=False)
class Job:
    """One request in the queue, and then in a batch."""

    work: Work[Any]
    answer: "asyncio.Future[Outcome[Any]]"
    accepted: float = field(default_factory=time.monotonic)
    place: tuple[Batch[Any], int] | None = None
    """The batch that it runs in, and its position there."""

    @property
    def points(self) -> int:
        return self.work.point_count

    @property
    def cost(self) -> int:
        """Nanoseconds that its work is predicted to take."""
        return self.work.cost_ns

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.answer.done()

    def fail(self, error: BaseException) -> None:
        """Answers with an error, if somebody still waits."""
        if self.is_wanted:
            self.answer.set_exception(error)

    def give_up(self) -> None:
        """Has a kernel that works on it leave it unfinished."""
        if self.place is not None:
            batch, index = self.place
            batch.give_up(index)


class JobQueue:
    """Two lines, for jobs that share batches and for jobs that run alone.

    Alone runs what has more than half of a batch's points, or is of a kind that shares no launch.
    Each line is first come, first served; a batch is taken from the line whose first job is older.
    But after a job that ran alone the others have their turn: however many of the former wait, one
    of the latter waits for one of them at most, and one that runs alone for one batch of jobs that
    came later.
    """

    def __init__(self, batch_points: int) -> None:
        self._batch_points = batch_points
        self._shared: OrderedDict[int, Job] = OrderedDict()
        self._alone: OrderedDict[int, Job] = OrderedDict()
        self._last_was_alone = False
        self.points = 0

    def __len__(self) -> int:
        return len(self._shared) + len(self._alone)

    @property
    def has_full_batch(self) -> bool:
        """Whether the next batch is there already, and would not be larger later."""
        if not len(self):
            return False
        return self._next_line() is self._alone or self.points >= self._batch_points

    def add(self, job: Job) -> None:
        self._line_of(job)[id(job)] = job
        self.points += job.points

    def discard(self, job: Job) -> None:
        """Takes a job out, if it still waits."""
        if self._line_of(job).pop(id(job), None) is not None:
            self.points -= job.points

    def take_batch(self) -> list[Job]:
        """The jobs whose turn it is, all of one kind; empty when nobody waits."""
        line = self._next_line()
        self._last_was_alone = line is self._alone
        batch: list[Job] = []
        points = 0
        while line:
            job = next(iter(line.values()))
            if batch and not self._may_join(job, batch, points):
                break
            self.discard(job)
            if job.is_wanted:
                batch.append(job)
                points += job.points
        return batch

    def take_all(self) -> list[Job]:
        """Every job that waits."""
        jobs = [*self._shared.values(), *self._alone.values()]
        for job in jobs:
            self.discard(job)
        return jobs

    def _may_join(self, job: Job, batch: list[Job], points: int) -> bool:
        is_alike = job.work.shares_launch and type(job.work) is type(batch[0].work)
        return is_alike and points + job.points <= self._batch_points

    def _line_of(self, job: Job) -> OrderedDict[int, Job]:
        is_large = 2 * job.points > self._batch_points
        return self._alone if is_large or not job.work.shares_launch else self._shared

    def _next_line(self) -> OrderedDict[int, Job]:
        if not (self._shared and self._alone):
            return self._shared or self._alone
        if self._last_was_alone or _age(self._shared) <= _age(self._alone):
            return self._shared
        return self._alone


def _age(line: OrderedDict[int, Job]) -> float:
    return next(iter(line.values())).accepted
