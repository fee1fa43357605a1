"""The work that waits, and the order in which it is taken."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from farpoint_server.engine.types import Batch, Clouds, Outcome


@dataclass(eq=False)
class Job:
    """One request in the queue, and then in a batch."""

    clouds: Clouds
    answer: asyncio.Future[Outcome]
    accepted: float = field(default_factory=time.monotonic)
    place: tuple[Batch, int] | None = None
    """The batch that it runs in, and its position there."""

    @property
    def points(self) -> int:
        return len(self.clouds.points)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.answer.done()

    def give_up(self) -> None:
        """Has a kernel that works on it leave it unfinished."""
        if self.place is not None:
            batch, index = self.place
            batch.give_up(index)


class JobQueue:
    """Two lines, for jobs of up to half a batch and for larger ones.

    Each line is first come, first served; a batch is taken from the line whose first job is older.
    But after a large job the small ones have their turn: however many large ones wait, a small
    one waits for one of them at most, and a large one for one batch of small ones that came later.
    """

    def __init__(self, batch_points: int) -> None:
        self._batch_points = batch_points
        self._small: OrderedDict[int, Job] = OrderedDict()
        self._large: OrderedDict[int, Job] = OrderedDict()
        self._last_was_large = False
        self.points = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    @property
    def has_full_batch(self) -> bool:
        """Whether the next batch is there already, and would not be larger later."""
        if not len(self):
            return False
        return self._next_line() is self._large or self.points >= self._batch_points

    def add(self, job: Job) -> None:
        self._line_of(job)[id(job)] = job
        self.points += job.points

    def discard(self, job: Job) -> None:
        """Takes a job out, if it still waits."""
        if self._line_of(job).pop(id(job), None) is not None:
            self.points -= job.points

    def take_batch(self) -> list[Job]:
        """The jobs whose turn it is; empty when nobody waits."""
        line = self._next_line()
        self._last_was_large = line is self._large
        batch: list[Job] = []
        points = 0
        while line:
            job = next(iter(line.values()))
            if batch and points + job.points > self._batch_points:
                break
            self.discard(job)
            if job.is_wanted:
                batch.append(job)
                points += job.points
        return batch

    def take_all(self) -> list[Job]:
        """Every job that waits."""
        jobs = [*self._small.values(), *self._large.values()]
        for job in jobs:
            self.discard(job)
        return jobs

    def _line_of(self, job: Job) -> OrderedDict[int, Job]:
        return self._large if 2 * job.points > self._batch_points else self._small

    def _next_line(self) -> OrderedDict[int, Job]:
        if not (self._small and self._large):
            return self._small or self._large
        if self._last_was_large or _age(self._small) <= _age(self._large):
            return self._small
        return self._large


def _age(line: OrderedDict[int, Job]) -> float:
    return next(iter(line.values())).accepted
