"""Responses that are not yet sent: their bytes count, and peers that do not read are cut off."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import structlog
from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.handlers import Context
from farpoint_server.transport.sockets import close_connection

# Time to read a response.
TIMEOUT_S = 30.0
# Two megabits per second. A peer that reads more slowly holds memory that many others could use.
BYTES_PER_S = 1 << 18
log = structlog.get_logger("farpoint.rpc")


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
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s / 4, self.sweep)

    def sweep(self) -> None:
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
