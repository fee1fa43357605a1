"""The choice among several devices."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import structlog

from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.work import Answer, Outcome, Work
from farpoint_server.errors import (
    DeviceFailedError,
    EngineHungError,
    OverloadedError,
    ServiceError,
    TooLargeError,
)

# Errors that move work to another device. Where none is left, the caller gets the first of these.
MOVES = (OverloadedError, EngineHungError, DeviceFailedError, TooLargeError)
# Of requests of a class that went to other devices, one in so many measures a device anew, if it is
# predicted to end there within so many times the time.
PROBE, PROBE_TIMES = 256, 8
log = structlog.get_logger("farpoint.compute")


class Placement:
    """Several devices; the one with the earliest predicted completion runs a request.

    Copies count: a single cloud in host memory is sampled sooner by a core than by a GPU, whose
    samples follow one another as well and take longer each; many clouds at a time are the GPU's.
    What a device cannot do, because it hangs, has failed or lacks memory, moves to the next.

    Args:
        schedulers: Of one device each, started; of two that predict the same the first one gets the
            work.
    """

    def __init__(self, schedulers: Sequence[DeviceScheduler]) -> None:
        self._schedulers = schedulers
        self._failed: set[int] = set()
        self._passed: Counter[Any] = Counter()
        """Requests of a class that a device did not get since it was measured for them."""

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """Runs work on the device with the earliest predicted completion, or else on another one.

        Args:
            work: One request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            ServiceError: as DeviceScheduler.run, once no device is left.
        """
        begun = time.monotonic()
        left = [at for at in range(len(self._schedulers)) if at not in self._failed]
        refusals: list[ServiceError] = []
        while left:
            at = self._choose(work, left)
            left.remove(at)
            remaining_s = None if timeout_s is None else timeout_s - (time.monotonic() - begun)
            try:
                return await self._schedulers[at].run(work, remaining_s)
            except MOVES as error:
                refusals.append(error)
                if isinstance(error, DeviceFailedError):
                    self._failed.add(at)
                if left:
                    log.warning("work moved to another device", device=at, error=str(error))
        raise min(refusals, key=_rank, default=DeviceFailedError("no device is left"))

    def _choose(self, work: Work[Any], left: Sequence[int]) -> int:
        """The device with the earliest predicted completion.

        A device learns only from the work that it runs, so now and then it gets one.
        """
        # Those that hang are asked last: they refuse at once, and may be back.
        ends = {at: self._schedulers[at].completion_ns(work) for at in left}
        best = min(left, key=ends.__getitem__)
        for at in left:
            if at == best:
                continue
            key = at, self._schedulers[at].costs.class_of(work)
            self._passed[key] += 1
            if self._passed[key] >= PROBE and ends[at] <= PROBE_TIMES * ends[best]:
                self._passed[key] = 0
                return at
        return best


def _rank(refusal: ServiceError) -> int:
    return next(rank for rank, kind in enumerate(MOVES) if isinstance(refusal, kind))
