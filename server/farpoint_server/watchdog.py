"""Notices an engine that does not come back from a batch."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger("farpoint.watchdog")


class Watchdog:
    """Counts the engines that are at one batch for longer than they may.

    A thread in a kernel or a driver cannot be ended from outside. What can be done is to tell the
    callers, to say NOT_SERVING once no engine is left, so that an orchestrator restarts the
    process, and to go on as before if the engine does come back.

    Args:
        limit_s: Seconds that a batch may run; None is without limit.
        engines: How many there are.
        report: Called with False when the last engine hangs, and with True when one is back.
    """

    def __init__(
        self,
        limit_s: float | None,
        engines: int = 1,
        report: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._limit_s = limit_s
        self._engines = engines
        self._report = report
        self._hung = 0

    @property
    def all_hung(self) -> bool:
        """Whether no engine is left that could answer."""
        return self._hung == self._engines

    async def watch(self, batch: Coroutine[Any, Any, T], on_hang: Callable[[], None]) -> T:
        """The result of a batch; `on_hang` is called if it takes longer than it may."""
        running = asyncio.ensure_future(batch)
        try:
            done, _ = await asyncio.wait({running}, timeout=self._limit_s)
            if not done:
                await self._outlast(running, on_hang)
            return running.result()
        finally:
            running.cancel()

    async def _outlast(self, running: "asyncio.Future[T]", on_hang: Callable[[], None]) -> None:
        self._hung += 1
        log.error("engine hung", limit_s=self._limit_s, hung=self._hung, engines=self._engines)
        if self.all_hung:
            self._report(False)
        on_hang()
        try:
            await asyncio.wait({running})
        finally:
            if self.all_hung:
                self._report(True)
            self._hung -= 1
        log.warning("engine is back", hung=self._hung)
