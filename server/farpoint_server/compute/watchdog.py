"""A time limit for batches."""

from collections.abc import Callable

import structlog

log = structlog.get_logger("farpoint.compute")


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
