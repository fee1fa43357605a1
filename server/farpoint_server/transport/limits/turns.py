"""Semaphore that callers wait for in turn: one with many waiters holds up no other."""

import asyncio
from collections import OrderedDict, deque


class Turns:
    """Some turns, handed out by caller: first come, first served among the waiters of one.

    Args:
        count: Turns at the same time.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        # The caller whose turn it is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, caller: str) -> None:
        """Takes a turn, which is waited for if none is free."""
        if self._free:
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
        """Gives a turn back, or on to the next caller."""
        while self._waiting:
            caller, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
