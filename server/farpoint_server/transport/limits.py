"""Limits by caller: on open calls, on messages that come in, and on responses that are not read."""

import asyncio
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.errors import DeadlinePassedError, DrainingError, TooManyCallsError
from farpoint_server.request_context import TOKEN_PREFIX
from farpoint_server.scheduling.admission import Admission
from farpoint_server.transport.handlers import Context, read_end
from farpoint_server.transport.sockets import close_connection

# Twelve megabytes take some ten milliseconds on one machine; a slow sender does not hold up others.
TURN_S = 0.5
# A message that took longer would hold its memory for nothing; SampleLarge sends it in pieces.
RECEIVE_S = 120.0
# Time to read a response.
TIMEOUT_S = 30.0
# Two megabits per second. A peer that reads more slowly holds memory that many others could use.
BYTES_PER_S = 1 << 18
# All callers, one caller. A fleet behind one address may watch the health of a few dozen channels.
CHECKS = (256, 64)
WATCHES = (192, 64)
ADMIN = (64, 32)
ADMIN_RPCS = ("farpoint.v1.AdminService/", "inference.GRPCInferenceService/RepositoryModel")
LOG_INTERVAL_S = 1.0
log = structlog.get_logger("farpoint.rpc")


class CallSlots:
    """Counts the open calls of one kind.

    A caller with a token is refused only for its own share: where all slots are taken, that is the
    slots divided by the callers, so that other callers cannot keep it out. There are as many tokens
    as the operator has given out; addresses can be made up, so callers without tokens are refused
    where all slots are taken.

    Args:
        total: Calls of all callers.
        per_caller: Calls of one caller.
        retry_ms: Milliseconds after which a refused caller may retry.
    """

    def __init__(self, total: int, per_caller: int, retry_ms: int) -> None:
        self._total = total
        self._per_caller = per_caller
        self._retry_ms = retry_ms
        self._open: Counter[str] = Counter()
        self._count = 0

    def enter(self, caller: str) -> None:
        """Takes a slot; raises TooManyCallsError if the caller has no room."""
        held = self._open.get(caller, 0)
        if held >= self._per_caller:
            raise self._refusal(f"the caller has {held} calls open of at most {self._per_caller}")
        if self._count >= self._total:
            share = max(1, self._total // (len(self._open) + (held == 0)))
            if not caller.startswith(TOKEN_PREFIX) or held >= share:
                raise self._refusal(f"all {self._total} calls of the server are taken")
        self._open[caller] = held + 1
        self._count += 1

    def leave(self, caller: str) -> None:
        """Releases a slot."""
        self._count -= 1
        if self._open[caller] == 1:
            del self._open[caller]
        else:
            self._open[caller] -= 1

    def _refusal(self, reason: str) -> TooManyCallsError:
        return TooManyCallsError(reason, self._retry_ms)


class CallLimits:
    """The slots of each kind of call: requests, administration, checks, and watches.

    Health and reflection need no token, so they have slots of their own, and so has an operator who
    looks into a full server. Watches last, as do streams of reflection: they take none of the slots
    of checks, which end at once.

    Args:
        total: Requests open at a time.
        per_caller: Those of one caller; None for half of them.
        retry_ms: Milliseconds after which a refused caller may try again.
    """

    def __init__(self, total: int, per_caller: int | None, retry_ms: int) -> None:
        half = max(1, total // 2)
        self._requests = CallSlots(total, per_caller or half, retry_ms)
        self._admin = CallSlots(*ADMIN, retry_ms)
        self._checks = CallSlots(*CHECKS, retry_ms)
        self._watches = CallSlots(*WATCHES, retry_ms)

    def of(self, rpc: str) -> CallSlots:
        """The slots of "package.Service/Method"."""
        if rpc.startswith(ADMIN_RPCS):
            return self._admin
        if rpc.startswith("grpc."):
            return self._checks if rpc.endswith("Health/Check") else self._watches
        return self._requests


class RefusalLog:
    """Logs refused calls: at most one line a second, with their number since the last line."""

    def __init__(self) -> None:
        self._count = 0
        self._logged = -LOG_INTERVAL_S

    def add(self, error: TooManyCallsError) -> None:
        """Counts a refused call and logs it unless one was logged in this second."""
        self._count += 1
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_S:
            log.warning("calls rejected", calls=self._count, error=str(error))
            self._count, self._logged = 0, now


class InFlight:
    """Counts calls, so that a drain knows when the last one is answered."""

    def __init__(self) -> None:
        self._calls = 0
        self.draining = asyncio.Event()
        """Set once nothing more is accepted; a stream that is open then ends by itself."""
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def calls(self) -> int:
        """Accepted and unanswered calls."""
        return self._calls

    def enter(self) -> None:
        """Accepts a call; raises DrainingError once `drain` was called."""
        if self.draining.is_set():
            raise DrainingError("the server is shutting down")
        self._calls += 1
        self._idle.clear()

    def leave(self) -> None:
        """Ends an accepted call."""
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()

    async def drain(self) -> None:
        """Accepts no more calls and waits until the last one is answered."""
        self.draining.set()
        await self._idle.wait()


class Response:
    """A response that must be read by `due`, in seconds of time.monotonic."""

    __slots__ = ("caller", "context", "due", "is_cut", "size")

    def __init__(self, context: Context, caller: str, size: int) -> None:
        self.context, self.caller, self.size = context, caller, size
        self.due = math.inf
        self.is_cut = False


class Outgoing:
    """Responses that are not yet sent.

    A peer has `timeout_s` and the time of the size at `bytes_per_s`; then its connection is closed,
    with all of its calls. gRPC has sent a response once HTTP/2's flow control has let all of it
    through, and the socket has taken it.

    Args:
        admission: Counts the bytes. They are never refused, but others are in their place.
        count_refusal: Given "send_timeout" for each peer that is disconnected.
    """

    def __init__(
        self,
        admission: Admission,
        timeout_s: float = TIMEOUT_S,
        bytes_per_s: int = BYTES_PER_S,
        count_refusal: Callable[[str], object] = str,
    ) -> None:
        self._admission = admission
        self._timeout_s = timeout_s
        self._bytes_per_s = bytes_per_s
        self._count_refusal = count_refusal
        self._responses: set[Response] = set()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, context: Context, size: int) -> Response:
        """Counts a response of the current request until it ends."""
        caller = request_context.caller.get()
        self._admission.add_response(caller, size)
        return Response(context, caller, size)

    def begin(self, response: Response) -> None:
        """Starts the time in which the peer must read: gRPC has the response."""
        response.due = time.monotonic() + self._timeout_s + response.size / self._bytes_per_s
        self._responses.add(response)
        # One timer for all; one for each would cost more than all else here.
        if self._timer is None:
            self._set_timer()

    def end(self, response: Response) -> None:
        """Ends a response that is sent or dropped."""
        self._responses.discard(response)
        self._admission.remove(response.caller, 0, response.size)

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s / 4, self.look)

    def look(self) -> None:
        """Called by the timer: disconnects peers whose time is over."""
        now = time.monotonic()
        for response in self._responses:
            if now >= response.due and not response.is_cut:
                self._cut(response)
        self._timer = None
        if self._responses:
            self._set_timer()

    def _cut(self, response: Response) -> None:
        response.is_cut = True
        self._count_refusal("send_timeout")
        peer = response.context.peer()
        closed = close_connection(peer)
        log.warning("peer reads too slowly", peer=peer, bytes=response.size, closed=closed)


class OpenCall:
    """Counts a call until gRPC has sent its answer, for which a drain waits.

    Raises:
        DrainingError: the server is shutting down.
        TooManyCallsError: the caller has no slot.
    """

    __slots__ = ("_caller", "_in_flight", "_outgoing", "_response", "_slots")

    def __init__(
        self,
        context: Context,
        in_flight: InFlight,
        slots: CallSlots | None,
        outgoing: Outgoing | None,
    ) -> None:
        self._in_flight, self._slots, self._outgoing = in_flight, slots, outgoing
        self._caller = request_context.caller.get()
        self._response: Response | None = None
        in_flight.enter()
        if slots is not None:
            try:
                slots.enter(self._caller)
            except TooManyCallsError:
                in_flight.leave()
                raise
        context.add_done_callback(self._close)  # type: ignore[arg-type]

    def answer(self, context: Context, response: Any) -> None:
        """Counts the response that gRPC is about to send."""
        if self._outgoing is not None and response is not None:
            self._response = self._outgoing.hold(context, _size(response))
            self._outgoing.begin(self._response)

    def _close(self, _: Context) -> None:
        self._in_flight.leave()
        if self._slots is not None:
            self._slots.leave(self._caller)
        # Dropped: its context's callbacks hold this object, a circle for the garbage collector.
        response, self._response = self._response, None
        if self._outgoing is not None and response is not None:
            self._outgoing.end(response)


def _size(response: Any) -> int:
    if isinstance(response, bytes):
        return len(response)
    return response.ByteSize() if isinstance(response, Message) else 0


class FairSemaphore:
    """A semaphore that is fair between callers."""

    def __init__(self, count: int) -> None:
        self._free = count
        # The caller whose turn it is next comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, caller: str) -> None:
        """Waits for a turn."""
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
        """Releases a turn, or passes it to the next caller."""
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


class Receiver:
    """Receives a few messages at a time; flow control delays the others.

    While a message is received it lies in memory twice, in gRPC and in Python, and its size is
    unknown. A slow one gives its turn to others after `turn_s` (up to twice as long), so that slow
    senders do not block others, and is refused after `timeout_s`. Callers take turns: one that
    sends much or slowly makes its own calls wait.
    """

    def __init__(self, turns: int, turn_s: float = TURN_S, timeout_s: float = RECEIVE_S) -> None:
        self._turns = FairSemaphore(turns)
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
        self._timer = asyncio.get_running_loop().call_later(self._turn_s, self.look)

    def look(self) -> None:
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

    def end_turn(self, turns: FairSemaphore) -> None:
        if self.has_turn:
            self.has_turn = False
            turns.release()

    def time_out(self) -> None:
        if self._task is not None and not self.timed_out:
            self.timed_out = True
            self._task.cancel()
