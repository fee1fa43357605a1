"""An event loop whose time passes only while nothing is left to do, or by `spend`."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Sleeps end at once, in their order: seconds of a simulation take as long as its steps."""

    def __init__(self) -> None:
        super().__init__(_Jump(self))
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def spend(self, seconds: float) -> None:
        """Lets time pass while the loop, and the interpreter, can do nothing else."""
        self._now += seconds


class _Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._loop.spend(timeout)
        return super().select(0)


def run_in_virtual_time(main: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine on a loop of its own."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
