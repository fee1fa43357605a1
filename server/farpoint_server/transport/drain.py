"""Graceful shutdown: counts the calls in flight, and refuses new ones once the server drains."""

import asyncio

from farpoint_server.errors import DrainingError


class InFlight:
    """Counts calls, so that a draining server knows when the last one is answered."""

    def __init__(self) -> None:
        self._calls = 0
        self.draining = asyncio.Event()
        """Set once nothing more is accepted; a stream that is open then ends by itself."""
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def calls(self) -> int:
        """Calls that are accepted and not yet answered."""
        return self._calls

    def enter(self) -> None:
        """Accepts a call; raises DrainingError once `drain` was called."""
        if self.draining.is_set():
            raise DrainingError("the server is shutting down")
        self._calls += 1
        self._idle.clear()

    def leave(self) -> None:
        """Ends a call that was accepted."""
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()

    async def drain(self) -> None:
        """Accepts nothing more, and returns when the last call is answered."""
        self.draining.set()
        await self._idle.wait()
