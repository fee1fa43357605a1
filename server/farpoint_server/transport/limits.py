"""Limits on open calls and on responses that are not read, by caller."""

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import quote, unquote

import structlog
from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.errors import DrainingError, TooManyCallsError
from farpoint_server.scheduling.admission import Admission, CallSlots
from farpoint_server.transport.handlers import Context

DESCRIPTORS = "/proc/self/fd"
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


def close_connection(peer: str) -> bool:
    """Shuts down the connection of `context.peer()`; whether it was found.

    Connections of unix sockets have no names, and only Linux lists descriptors: there it is False.
    """
    if not os.path.isdir(DESCRIPTORS):
        return False
    return any(_close_if(int(name), unquote(peer)) for name in os.listdir(DESCRIPTORS))


def _close_if(descriptor: int, peer: str) -> bool:
    """Shuts down a descriptor if it is a connection to the peer.

    It is duplicated first: a number that is closed meanwhile may be another file's a moment later.
    """
    try:
        duplicate = os.dup(descriptor)
    except OSError:  # closed by now
        return False
    try:
        connection = socket.socket(fileno=duplicate)
    except OSError:  # not a socket
        os.close(duplicate)
        return False
    with connection, suppress(OSError):  # not connected
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and unquote(peer_name(*connection.getpeername()[:2])) == peer:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def peer_name(host: str, port: int) -> str:
    """A peer in gRPC's form, so that a caller is the same on every port."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return f"{host}:{port}"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return f"ipv6:{quote(f'[{host}]', safe=':')}:{port}"
        host = str(address.ipv4_mapped)
    return f"ipv4:{host}:{port}"


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
        # Dropped: its context's callbacks hold this object, a circle for the garbage collector.
        response, self._response = self._response, None
        if self._outgoing is not None and response is not None:
            self._outgoing.end(response)
        if self._slots is not None:
            self._slots.leave(self._caller)


def _size(response: Any) -> int:
    if isinstance(response, bytes):
        return len(response)
    return response.ByteSize() if isinstance(response, Message) else 0
