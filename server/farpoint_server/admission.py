"""How much work the server holds at once; what is beyond is refused, not queued."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from farpoint_server.errors import OverloadedError


class Admission:
    """Bounds on all requests between their acceptance and their answer.

    Args:
        max_points: Points of their clouds.
        max_bytes: Bytes of their messages.
        retry_ms: Milliseconds that a refused caller is told to wait.
    """

    def __init__(self, max_points: int, max_bytes: int, retry_ms: int) -> None:
        self.max_points = max_points
        self.max_bytes = max_bytes
        self._retry_ms = retry_ms
        self._points = 0
        self._bytes = 0

    @property
    def points(self) -> int:
        """Points of the requests that are inside now."""
        return self._points

    @property
    def bytes(self) -> int:
        """Bytes of the requests that are inside now."""
        return self._bytes

    def check_room(self) -> None:
        """Raises OverloadedError if not even a request of one point would fit."""
        self._check(1, 1)

    @contextmanager
    def hold(self, points: int, size: int) -> Iterator[None]:
        """Counts a request's points and bytes while the block runs.

        Raises:
            OverloadedError: there is no room; the request must not be kept.
        """
        self._check(points, size)
        self._points += points
        self._bytes += size
        try:
            yield
        finally:
            self._points -= points
            self._bytes -= size

    def _check(self, points: int, size: int) -> None:
        for unit, held, more, most in (
            ("points", self._points, points, self.max_points),
            ("bytes", self._bytes, size, self.max_bytes),
        ):
            if held + more > most:
                message = f"the server holds {held} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", self._retry_ms)


class Receiving:
    """Lets a few messages come in at a time; flow control holds the others back at their senders.

    While a message is received it lies in memory twice, in gRPC and in Python, and its size is
    not known before it is there. One from a slow sender gives its turn to others after a while,
    so that no number of slow senders keeps the rest out.

    Args:
        turns: Messages that come in at the same time.
        patience_s: Seconds after which a turn ends, though the message is not there yet.
    """

    def __init__(self, turns: int, patience_s: float) -> None:
        self._turns = asyncio.Semaphore(turns)
        self._patience_s = patience_s

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a turn, and has it while the block runs."""
        await self._turns.acquire()
        timer = asyncio.get_running_loop().call_later(self._patience_s, self._turns.release)
        try:
            yield
        finally:
            if not timer.cancelled() and timer.when() > asyncio.get_running_loop().time():
                timer.cancel()
                self._turns.release()
