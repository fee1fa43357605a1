"""Limits on open calls, by caller and of each kind."""

import asyncio
import time

from farpoint_server import request_context
from farpoint_server.errors import FULL_RETRY_MS, DrainingError, TooManyCallsError
from farpoint_server.request_context import TOKEN_PREFIX
from farpoint_server.transport.counts import Count, Counts
from farpoint_server.transport.grpc.handlers import Context
from farpoint_server.transport.outgoing import Outgoing, Response

# All callers, one caller. A fleet behind one address may watch the health of a few dozen channels.
CHECKS = (256, 64)
WATCHES = (192, 64)
ADMIN = (64, 32)
ADMIN_RPCS = "farpoint.v1.AdminService/"
# Without a new call for so long, every caller that waits for an answer before its next call waits.
QUIET_S = 0.05
# Callers that do not wait for answers call all the time.
MAX_HOLD_S = 0.3


class CallSlots:
    """Counts the open calls of one kind.

    A caller with a token is refused only for its own share: where all slots are taken, that is the
    slots divided by the callers, so that other callers cannot keep it out. There are as many tokens
    as the operator has given out; addresses can be made up, so callers without tokens are refused
    where all slots are taken.

    Args:
        total: Calls of all callers.
        per_caller: Calls of one caller.
        kind: Of the calls.
        counts: Of all front ends; its own if None.
    """

    def __init__(
        self,
        total: int,
        per_caller: int,
        kind: Count = Count.REQUESTS,
        counts: Counts | None = None,
    ) -> None:
        self._total = total
        self._per_caller = per_caller
        self._kind, self._counts = kind, counts or Counts()

    def enter(self, caller: str) -> None:
        """Takes a slot; raises TooManyCallsError if the caller has no room."""
        held = self._counts.held(caller, self._kind)
        if held >= self._per_caller:
            raise self._refusal(f"the caller has {held} calls open of at most {self._per_caller}")
        if self._counts.total(self._kind) >= self._total:
            share = max(1, self._total // (self._counts.callers(self._kind) + (held == 0)))
            if not caller.startswith(TOKEN_PREFIX) or held >= share:
                raise self._refusal(f"all {self._total} calls of the server are taken")
        self._counts.add(caller, self._kind, 1)

    def leave(self, caller: str) -> None:
        """Releases a slot."""
        self._counts.add(caller, self._kind, -1)

    def _refusal(self, reason: str) -> TooManyCallsError:
        return TooManyCallsError(reason, FULL_RETRY_MS)


class CallLimits:
    """The slots of each kind of call: requests, administration, checks, and watches.

    Health and reflection need no token, so they have slots of their own, and so has an operator who
    looks into a full server. Watches last, as do streams of reflection: they take none of the slots
    of checks, which end at once.

    Args:
        total: Requests open at a time.
        per_caller: Those of one caller; None for half of them.
        counts: Of all front ends; its own if None.
    """

    def __init__(self, total: int, per_caller: int | None, counts: Counts | None = None) -> None:
        counts = counts or Counts()
        each = counts.front_ends

        def slots(kind: Count, all_callers: int, caller: int) -> CallSlots:
            return CallSlots(all_callers, caller, kind, counts)

        self._requests = slots(Count.REQUESTS, total, per_caller or max(1, total // 2))
        # One connection, which one front end serves, has checks of its own.
        self._admin, self._checks, self._watches = (
            slots(kind, all_callers * each, caller * each)
            for kind, (all_callers, caller) in (
                (Count.ADMIN, ADMIN),
                (Count.CHECKS, CHECKS),
                (Count.WATCHES, WATCHES),
            )
        )

    def of(self, rpc: str) -> CallSlots:
        """The slots of "package.Service/Method"."""
        if rpc.startswith(ADMIN_RPCS):
            return self._admin
        if rpc.startswith("grpc."):
            return self._checks if rpc.endswith("Health/Check") else self._watches
        return self._requests


class InFlight:
    """Counts calls, so that a drain knows when the last one is answered.

    A drain begins with `hold`, which keeps answers back. A caller that waits for them sends no call
    that could meet the server's end; when it gets its answer, it knows that the server leaves.
    """

    def __init__(self) -> None:
        self._calls = self._accepted = 0
        self.draining = asyncio.Event()
        """Set by `drain`; a stream that is open then ends by itself."""
        self._refuses = False
        self._idle, self._may_answer = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._may_answer.set()

    @property
    def calls(self) -> int:
        """Accepted and unanswered calls."""
        return self._calls

    def enter(self) -> None:
        """Accepts a call; raises DrainingError once `drain` was called with `refuse`."""
        if self._refuses:
            raise DrainingError("the server is shutting down")
        self._calls += 1
        self._accepted += 1
        self._idle.clear()

    def leave(self) -> None:
        """Ends an accepted call."""
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()

    async def hold(self) -> None:
        """Keeps answers back until `drain`; returns when no call has come for a moment."""
        self._may_answer.clear()
        end, seen = time.monotonic() + MAX_HOLD_S, -1
        while self._accepted != seen and time.monotonic() < end:
            seen = self._accepted
            await asyncio.sleep(QUIET_S)

    async def may_answer(self) -> None:
        """Waits while answers are kept back."""
        if not self._may_answer.is_set():
            await self._may_answer.wait()

    async def drain(self, *, refuse: bool = False) -> None:
        """Ends streams and waits until every accepted call is answered.

        Args:
            refuse: Whether calls that still come are refused, not answered.
        """
        self._refuses = refuse
        self.draining.set()
        self._may_answer.set()
        await self._idle.wait()


class OpenCall:
    """Counts a call until gRPC has sent its answer, for which a drain waits.

    Attributes:
        response: Of `outgoing`; ends with the call.

    Raises:
        DrainingError: the server is shutting down.
        TooManyCallsError: the caller has no slot.
    """

    __slots__ = ("_caller", "_in_flight", "_outgoing", "_slots", "response")

    def __init__(
        self,
        context: Context,
        in_flight: InFlight,
        slots: CallSlots | None,
        outgoing: Outgoing | None,
    ) -> None:
        self._in_flight, self._slots, self._outgoing = in_flight, slots, outgoing
        self._caller = request_context.caller.get()
        self.response: Response | None = None
        in_flight.enter()
        if slots is not None:
            try:
                slots.enter(self._caller)
            except TooManyCallsError:
                in_flight.leave()
                raise
        context.add_done_callback(self._close)  # type: ignore[arg-type]

    def _close(self, _: Context) -> None:
        self._in_flight.leave()
        if self._slots is not None:
            self._slots.leave(self._caller)
        # Dropped: its context's callbacks hold this object, a circle for the garbage collector.
        response, self.response = self.response, None
        if self._outgoing is not None and response is not None:
            self._outgoing.end(response)
