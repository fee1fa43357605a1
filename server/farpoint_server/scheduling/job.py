"""A job: one request in the queue, and then in a batch."""

import asyncio
from dataclasses import dataclass
from typing import Any

from farpoint_server.engine.types import Batch, Outcome, Work


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
        """Has a kernel that works on it leave it unfinished."""
        if self.place is not None:
            batch, index = self.place
            batch.cancel(index)
