"""Admission control: bounds on what is held at once; what is beyond is refused, not queued."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from farpoint_server.errors import OverloadedError

T = TypeVar("T")


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

    def hold(self, points: int, size: int) -> "Hold":
        """Counts a request's points and bytes while a block runs.

        Raises:
            OverloadedError: on entering; there is no room, and the request must not be kept.
        """
        return Hold(self, points, size)

    def add(self, points: int, size: int) -> None:
        """Begins to count points and bytes; raises OverloadedError where there is no room."""
        self._check(points, size)
        self._points += points
        self._bytes += size

    def remove(self, points: int, size: int) -> None:
        """Ends what `add` began."""
        self._points -= points
        self._bytes -= size

    def _check(self, points: int, size: int) -> None:
        if self._points + points <= self.max_points and self._bytes + size <= self.max_bytes:
            return
        for unit, held, more, most in (
            ("points", self._points, points, self.max_points),
            ("bytes", self._bytes, size, self.max_bytes),
        ):
            if held + more > most:
                message = f"the server holds {held} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", self._retry_ms)


class Hold:
    """A block in which points and bytes count. A class costs a third of a generator here."""

    __slots__ = ("_admission", "_points", "_size")

    def __init__(self, admission: Admission, points: int, size: int) -> None:
        self._admission, self._points, self._size = admission, points, size

    def __enter__(self) -> "Hold":
        self._admission.add(self._points, self._size)
        return self

    def add(self, points: int, size: int) -> None:
        """Has more count until the block ends; raises OverloadedError where there is no room."""
        self._admission.add(points, size)
        self._points += points
        self._size += size

    def __exit__(self, *_: object) -> None:
        self._admission.remove(self._points, self._size)


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
        self._free = turns
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._patience_s = patience_s
        # When each turn that lasts ends at the latest, the earliest first; one timer for them all.
        self._ends: dict[object, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, read: Callable[[], Awaitable[T]]) -> T:
        """Waits for a turn, and has it while `read` does."""
        # asyncio.Semaphore looks through those who wait also where nobody does.
        if self._free:
            self._free -= 1
        else:
            await self._wait()
        turn, now = object(), time.monotonic()
        self._ends[turn] = now + self._patience_s
        if self._timer is None:
            self._set_timer(now)
        try:
            return await read()
        finally:
            self._end(turn)

    async def _wait(self) -> None:
        """Returns when it is the caller's turn; first come, first served."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Gives a turn to the next who still waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _end(self, turn: object) -> None:
        """Ends a turn, unless that was done already."""
        if self._ends.pop(turn, None) is not None:
            self._release()

    def _end_late(self) -> None:
        now = time.monotonic()
        for turn in [turn for turn, end in self._ends.items() if end <= now]:
            self._end(turn)
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        """Looks again when the earliest turn has to end; most have ended long before."""
        self._timer = None
        for end in self._ends.values():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(end - now, self._end_late)
            break
