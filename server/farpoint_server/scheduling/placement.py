"""Placement of requests on several devices: the one that is predicted to have it done first.

Copies count: a single cloud in host memory is sampled sooner by a core than by a GPU, whose samples
follow one another as well and take longer each; many clouds at a time are the GPU's. What a device
cannot do, because it hangs, has failed or lacks memory, moves to the next.
"""

import time
from collections.abc import Sequence
from typing import TypeAlias

import structlog

from farpoint_server.engine.types import Answer, Outcome, Work
from farpoint_server.errors import (
    DeviceFailedError,
    EngineHungError,
    OverloadedError,
    ServiceError,
    TooLargeError,
)
from farpoint_server.scheduling.batcher import Batcher

# Errors that move work to another device. Where none is left, the caller gets the first of these.
MOVES = (OverloadedError, EngineHungError, DeviceFailedError, TooLargeError)
log = structlog.get_logger("farpoint.scheduling")


class Placement:
    """Several devices, each with queues of its own.

    Args:
        batchers: Of one device each, started; of two that predict the same the first one gets the
            work.
    """

    def __init__(self, batchers: Sequence[Batcher]) -> None:
        self._batchers = batchers
        self._failed: set[int] = set()

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """Does work where it is predicted to end first, and where that fails, elsewhere.

        Args:
            work: One request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            ServiceError: as Batcher.run, once no device is left.
        """
        begun = time.monotonic()
        left = [at for at in range(len(self._batchers)) if at not in self._failed]
        refusals: list[ServiceError] = []
        while left:
            # Those that hang are asked last: they refuse at once, and may be back.
            at = min(left, key=lambda at: self._batchers[at].completion_ns(work))
            left.remove(at)
            remaining_s = None if timeout_s is None else timeout_s - (time.monotonic() - begun)
            try:
                return await self._batchers[at].run(work, remaining_s)
            except MOVES as error:
                refusals.append(error)
                if isinstance(error, DeviceFailedError):
                    self._failed.add(at)
                if left:
                    log.warning("work moves to another device", device=at, error=str(error))
            work = work.retry_copy()
        raise min(refusals, key=_rank, default=DeviceFailedError("no device is left"))


Scheduler: TypeAlias = Batcher | Placement


def _rank(refusal: ServiceError) -> int:
    return next(rank for rank, kind in enumerate(MOVES) if isinstance(refusal, kind))
