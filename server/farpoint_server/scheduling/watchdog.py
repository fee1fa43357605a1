"""Watchdog that reports engines which do not come back from a batch."""

from collections.abc import Callable

import structlog

HUNG = "the engine does not answer; use another server"
log = structlog.get_logger("farpoint.watchdog")


class Watchdog:
    """Counts the engines that are at a batch for longer than they may.

    A thread in a kernel or a driver cannot be ended from outside. What can be done is to tell the
    callers, to say NOT_SERVING once no engine is left, so that an orchestrator restarts the
    process, and to go on as before if the engine does come back.

    Args:
        limit_s: Seconds that a batch may run; None is without limit.
        engines: How many there are in a lane; each is known by its position over all lanes.
        report: Called with False when the last engine of a lane hangs, and with True when each
            lane has one again.
        lanes: How many there are: what waits in one is not done by the engines of another.
    """

    def __init__(
        self,
        limit_s: float | None,
        engines: int = 1,
        report: Callable[[bool], None] = lambda _: None,
        lanes: int = 1,
    ) -> None:
        self.limit_s = limit_s
        self.late = [0] * engines * lanes
        """Batches that each engine is late with, as many as its depth at most."""
        self.hung_lanes = [False] * lanes
        """Whether each lane has no engine left that could answer."""
        self._lanes = [range(lane * engines, (lane + 1) * engines) for lane in range(lanes)]
        self._report = report

    @property
    def hung(self) -> int:
        """Engines that hang now."""
        return sum(late > 0 for late in self.late)

    @property
    def all_hung(self) -> bool:
        """Whether in some lane no engine is left that could answer."""
        return any(self.hung_lanes)

    def count(self, engine: int, late: int) -> None:
        """An engine is late with one batch more, or with one fewer."""
        before = self.all_hung
        self.late[engine] += late
        self.hung_lanes = [all(self.late[e] for e in lane) for lane in self._lanes]
        if late > 0:
            log.error("engine hung", engine=engine, limit_s=self.limit_s, hung=self.hung)
        else:
            log.warning("engine recovered", engine=engine, hung=self.hung)
        if self.all_hung != before:
            self._report(before)
