"""Wakes the engines' threads to tend memory, also while nobody asks for anything."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from farpoint_server.memory.manager import Manager

# Signals are read this often; a trim waits for its level's own time.
POLL_S = 0.25
GAP_POLL_S = 0.02

T = TypeVar("T")


class Engine(Protocol):
    """What owns a device, its thread and its memory manager; see engine.py."""

    memory: Manager

    def call(self, function: Callable[[], T]) -> Awaitable[T]:
        """Runs a function on the engine's thread, after the batch that is on it."""
        ...


class Keeper:
    """One watch over each engine.

    Args:
        engines: All of the server's.
        waiting: How many requests are in the queue.
        on_health: Called with whether every device serves, when that changes.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        waiting: Callable[[], int],
        on_health: Callable[[bool], Awaitable[None]],
    ) -> None:
        self.engines = engines
        self._waiting = waiting
        self._on_health = on_health
        self._healthy = True
        self._lost = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to watch."""
        self._watches = [asyncio.create_task(self._watch(engine)) for engine in self.engines]

    async def stop(self) -> None:
        """Trims nothing and reports nothing from now on."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def lost(self) -> None:
        """Returns once a device works no more in this process."""
        await self._lost.wait()

    async def trim(self, engine: Engine, *, force: bool) -> tuple[float, int] | None:
        """Trims an engine's memory: at the next moment without work, or after the running batch.

        Returns:
            Seconds and bytes returned; None if it could not be done.
        """
        memory = engine.memory
        while True:
            wait = memory.trim if force else lambda: memory.trim_if_idle(self._waiting())
            trim = await engine.call(wait)
            if trim is not None:
                return trim.seconds, trim.returned_bytes
            if force or memory.is_lost:
                return None
            await asyncio.sleep(GAP_POLL_S)

    async def _watch(self, engine: Engine) -> None:
        while not engine.memory.is_lost:
            await engine.call(lambda: engine.memory.tend(self._waiting()))
            await self._tell()
            await asyncio.sleep(POLL_S)
        await self._tell()
        self._lost.set()

    async def _tell(self) -> None:
        healthy = all(engine.memory.snapshot.healthy for engine in self.engines)
        if healthy != self._healthy:
            self._healthy = healthy
            await self._on_health(healthy)
