"""What is done when memory runs out in the middle of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from farpoint_server.memory.failures import OutOfMemory
from farpoint_server.memory.task import Answer, Task, Work


@dataclass(frozen=True)
class Ladder(Generic[Work, Answer]):
    """Trims and tries again, in halves, down to one cloud; then that request fails alone.

    Args:
        task: The work.
        attempt: Runs a batch; None when memory ran out. Once it has returned, nothing of a failed
            batch may be referenced any more.
        recover: Drops garbage, drains the device and trims.
    """

    task: Task[Work, Answer]
    attempt: Callable[[Sequence[Work]], list[Answer] | None]
    recover: Callable[[], None]

    def climb(self, batch: Sequence[Work]) -> list[Answer | OutOfMemory]:
        """The answer to each request of a batch, or what is said to it instead."""
        answers = self.attempt(batch)
        if answers is not None:
            return [*answers]
        self.recover()
        if len(batch) == 1:
            # The trim may have made room, and then the request need not be cut.
            answers = self.attempt(batch)
        if answers is not None:
            return [*answers]
        return in_halves(
            self.task, batch, self.climb, "memory ran out while the request was worked on"
        )


def in_halves(
    task: Task[Work, Answer],
    batch: Sequence[Work],
    run: Callable[[Sequence[Work]], list[Answer | OutOfMemory]],
    refusal: str,
) -> list[Answer | OutOfMemory]:
    """The answers of `run` to two halves of a batch, or of its only request, joined again.

    Args:
        task: The work.
        batch: One request or more.
        run: Answers half of it.
        refusal: What is said to a request that cannot be halved.
    """
    if len(batch) > 1:
        middle = len(batch) // 2
        return [*run(batch[:middle]), *run(batch[middle:])]
    parts = task.halve(batch[0])
    if parts is None:
        return [OutOfMemory(refusal)]
    (answer,) = run([parts[0]])
    if isinstance(answer, OutOfMemory):
        return [answer]
    (rest,) = run([parts[1]])
    return [rest if isinstance(rest, OutOfMemory) else task.join(parts[0], answer, rest)]
