"""Points and bytes of calls, in total and by caller: bounds on requests, and unread responses."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import structlog
from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.errors import CallerShareError, OverloadedError
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.sockets import close_connection

# A caller that was refused with nothing inside counts as waiting for so many times its retry time.
WAITING_RETRIES = 4
# Time to read a response.
TIMEOUT_S = 30.0
# Two megabits per second. A peer that reads more slowly holds memory that many others could use.
BYTES_PER_S = 1 << 18
log = structlog.get_logger("farpoint.rpc")


class Admission:
    """Bounds on all requests between their acceptance and their answer.

    A caller alone may fill the server. While others hold something, or were refused a moment ago
    with nothing inside, it is refused what goes beyond its share, and so makes room for them. One
    request is always within the share.

    Args:
        max_points: Points of their clouds.
        max_bytes: Bytes of their messages.
        retry_ms: Milliseconds after which a refused caller may retry.
        caller_share: Part of each bound that one caller may hold while others hold some.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        max_points: int,
        max_bytes: int,
        retry_ms: int,
        caller_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_points = max_points
        self.max_bytes = max_bytes
        self._retry_ms = retry_ms
        self._share_points = int(caller_share * max_points)
        self._share_bytes = int(caller_share * max_bytes)
        self._clock = clock
        self.points = 0
        """Of the requests that are inside now."""
        self.bytes = 0
        """Of their messages and of responses that are not sent yet."""
        self._callers: dict[str, list[int]] = {}
        """Points and bytes of each caller with requests inside."""
        self._shut_out: tuple[str, float] = ("", -float("inf"))
        """The caller that was refused last with nothing inside, and when."""

    def check_headroom(self) -> None:
        """Raises OverloadedError if not even a request of one point would fit."""
        self._check(request_context.caller.get(), 1, 1)

    def reserve(self, points: int, size: int) -> "Reservation":
        """A block in which a request's points and bytes count for its caller.

        Raises:
            OverloadedError: on entering; there is no room, and the request must not be kept.
        """
        return Reservation(self, request_context.caller.get(), points, size)

    def add(
        self, caller: str, points: int, size: int, own_points: int = 0, own_size: int = 0
    ) -> None:
        """Counts points and bytes, of a request that holds `own_points` and `own_size` already.

        Raises:
            OverloadedError: there is no room.
        """
        self._check(caller, points, size, own_points, own_size)
        self._count(caller, points, size)

    def add_response(self, caller: str, size: int) -> None:
        """Counts a response, which is not refused; requests have less room."""
        self._count(caller, 0, size)

    def remove(self, caller: str, points: int, size: int) -> None:
        """Stops counting what `add` or `add_response` counted."""
        self._count(caller, -points, -size)
        if not any(self._callers[caller]):
            del self._callers[caller]

    def _count(self, caller: str, points: int, size: int) -> None:
        self.points += points
        self.bytes += size
        held = self._callers.setdefault(caller, [0, 0])
        held[0] += points
        held[1] += size

    def _check(
        self, caller: str, points: int, size: int, own_points: int = 0, own_size: int = 0
    ) -> None:
        held = self._callers.get(caller)
        total_points, total_bytes = self.points + points, self.bytes + size
        if held is not None and self._has_others(caller):
            self._check_share(held[0] > own_points, "points", held[0], points, self._share_points)
            self._check_share(held[1] > own_size, "bytes", held[1], size, self._share_bytes)
        if total_points <= self.max_points and total_bytes <= self.max_bytes:
            return
        if held is None:
            self._shut_out = caller, self._clock()
        for unit, inside, more, most in (
            ("points", self.points, points, self.max_points),
            ("bytes", self.bytes, size, self.max_bytes),
        ):
            if inside + more > most:
                message = f"the server holds {inside} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", self._retry_ms)

    def _check_share(self, has_more: bool, unit: str, inside: int, more: int, most: int) -> None:
        """Refuses requests beyond a caller's share, if it has others in flight."""
        if has_more and inside + more > most:
            message = f"this caller holds {inside} {unit} of its share of {most}"
            raise CallerShareError(f"{message}; no room for {more} more", self._retry_ms)

    def _has_others(self, caller: str) -> bool:
        """Whether another caller holds some, or was recently refused while holding nothing."""
        if len(self._callers) > 1:
            return True
        who, when = self._shut_out
        waits_s = WAITING_RETRIES * self._retry_ms / 1e3
        return who != caller and self._clock() - when < waits_s


class Reservation:
    """A block in which points and bytes count; a class costs a third of a generator."""

    __slots__ = ("_admission", "_caller", "_points", "_size")

    def __init__(self, admission: Admission, caller: str, points: int, size: int) -> None:
        self._admission, self._caller, self._points, self._size = admission, caller, points, size

    def __enter__(self) -> "Reservation":
        self._admission.add(self._caller, self._points, self._size)
        return self

    def add(self, points: int, size: int) -> None:
        """Counts more until the block ends; raises OverloadedError if there is no room."""
        self._admission.add(self._caller, points, size, self._points, self._size)
        self._points += points
        self._size += size

    def __exit__(self, *_: object) -> None:
        self._admission.remove(self._caller, self._points, self._size)


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

    def send(self, context: Context, answer: Any) -> Response:
        """Counts the answer that gRPC is about to send as a response that has begun."""
        response = self.hold(context, _size(answer))
        self.begin(response)
        return response

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


def _size(answer: Any) -> int:
    if isinstance(answer, bytes):
        return len(answer)
    return answer.ByteSize() if isinstance(answer, Message) else 0
