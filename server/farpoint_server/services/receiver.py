"""Receives the messages of calls, a few at a time and in turns that are fair between callers."""

import asyncio
import time
from collections import OrderedDict, deque
from typing import Any

import grpc

from farpoint_server import request_context
from farpoint_server.errors import DeadlinePassedError
from farpoint_server.transport.grpc.handlers import Context, read_end

# Twelve megabytes take some ten milliseconds on one machine; a slow sender does not hold up others.
TURN_S = 0.5
# Turns in one round of the event loop: small requests are answered in it, half a millisecond each.
ROUND = 4
# From so many waiting calls on it is one turn, so that the event loop soon accepts other callers'.
CROWD = 32
# A message that took longer would hold its memory for nothing; SampleLarge sends it in pieces.
RECEIVE_S = 120.0


class FairTurns:
    """Turns that are fair between callers, a few in each round of the event loop.

    What a turn is for may be answered on the event loop, which accepts calls of other callers in
    its next rounds.

    Args:
        count: Turns at a time.
    """

    def __init__(self, count: int) -> None:
        self._free, self._left = count, ROUND
        self._is_counting = False
        # The caller whose turn it is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, caller: str) -> None:
        """Waits for a turn."""
        if self._free and not self._waiting and self._may_go_on():
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Releases a turn, or passes it to the next caller."""
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._free and self._may_go_on():
            caller, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def _may_go_on(self) -> bool:
        """Takes a turn of this round, if one is left."""
        if not self._left:
            return False
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_round)
        self._left -= 1
        return True

    def _begin_round(self) -> None:
        self._is_counting = False
        self._left = ROUND if sum(map(len, self._waiting.values())) < CROWD else 1
        self._grant()


class Receiver:
    """Receives a few messages at a time; flow control delays the others.

    While a message is received it lies in memory twice, in gRPC and in Python, and its size is
    unknown. A slow one gives its turn to others after `turn_s` (up to twice as long), so that slow
    senders do not block others, and is refused after `timeout_s`. Callers take turns: one that
    sends much or slowly makes its own calls wait.
    """

    def __init__(
        self,
        turns: int,
        turn_s: float = TURN_S,
        timeout_s: float = RECEIVE_S,
    ) -> None:
        self._turns = FairTurns(turns)
        self._turn_s = turn_s
        self._timeout_s = timeout_s
        self._readings: set[_Reading] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, context: Context) -> bytes:
        """Waits for a turn and returns the bytes of the first message of a call.

        Raises:
            DeadlinePassedError: it did not arrive in time.
            InvalidRequestError: the caller sent no message.
        """
        await self._turns.acquire(request_context.caller.get())
        reading = _Reading()
        self._readings.add(reading)
        # One timer for all: one for each, or wait_for, would cost more than all else here.
        if self._timer is None:
            self._set_timer()
        try:
            message: Any = await context.read()
        except asyncio.CancelledError:
            if reading.timed_out:
                raise DeadlinePassedError("the message did not arrive in time") from None
            raise
        finally:
            self._readings.remove(reading)
            reading.end_turn(self._turns)
        if message is grpc.aio.EOF:
            await read_end(context)
        return bytes(message)

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._turn_s, self.sweep)

    def sweep(self) -> None:
        """Called by the timer: ends turns that last too long, and cancels late messages."""
        now = time.monotonic()
        for reading in self._readings:
            if now - reading.began >= self._turn_s:
                reading.end_turn(self._turns)
            if now - reading.began >= self._timeout_s:
                reading.time_out()
        self._timer = None
        if self._readings:
            self._set_timer()


class _Reading:
    """A message that is being received."""

    __slots__ = ("_task", "began", "has_turn", "timed_out")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.began = time.monotonic()
        self.has_turn = True
        self.timed_out = False

    def end_turn(self, turns: FairTurns) -> None:
        if self.has_turn:
            self.has_turn = False
            turns.release()

    def time_out(self) -> None:
        if self._task is not None and not self.timed_out:
            self.timed_out = True
            self._task.cancel()
