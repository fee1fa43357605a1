"""Watchdog that reports engines which do not come back from a batch."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
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
        self._limit_s = limit_s
        self.late = [0] * engines * lanes
        """Batches that each engine is late with, as many as its depth at most."""
        self._lanes = [range(lane * engines, (lane + 1) * engines) for lane in range(lanes)]
        self._report = report

    @property
    def hung(self) -> int:
        """Engines that hang now."""
        return sum(late > 0 for late in self.late)

    @property
    def all_hung(self) -> bool:
        """Whether in some lane no engine is left that could answer."""
        return any(map(self.are_hung, self._lanes))

    def are_hung(self, engines: range) -> bool:
        """Whether all engines at these positions hang."""
        return all(self.late[engine] for engine in engines)

    def is_hung(self, engine: int) -> bool:
        """Whether the engine at this position hangs."""
        return self.late[engine] > 0

    async def watch(
        self, engine: int, batch: Coroutine[Any, Any, T], on_hang: Callable[[], None]
    ) -> T:
        """The result of an engine's batch; `on_hang` is called if it takes longer than it may."""
        late = False

        def hang() -> None:
            nonlocal late
            late = True
            self._count(engine, 1)
            log.error("engine hung", engine=engine, limit_s=self._limit_s, hung=self.hung)
            on_hang()

        timer = self._limit_s and asyncio.get_running_loop().call_later(self._limit_s, hang)
        try:
            return await batch
        finally:
            if timer:
                timer.cancel()
            if late:
                self._count(engine, -1)
                log.warning("engine hangs no more", engine=engine, hung=self.hung)

    def _count(self, engine: int, late: int) -> None:
        before = self.all_hung
        self.late[engine] += late
        if self.all_hung != before:
            self._report(before)
