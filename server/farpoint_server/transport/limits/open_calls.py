"""Open gRPC calls: accepted within limits, and counted until gRPC has sent their answers."""

import time
from typing import Any

import structlog
from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.errors import TooManyCallsError
from farpoint_server.transport.drain import InFlight
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.limits.outgoing import Outgoing, Response
from farpoint_server.transport.limits.slots import CallLimits, CallSlots

LOG_INTERVAL_S = 1.0
log = structlog.get_logger("farpoint.rpc")


class OpenCalls:
    """Accepts calls of our own services.

    Args:
        in_flight: Where calls are counted between acceptance and answer.
        limits: Whose slots they take; None for as many as come.
        outgoing: Where responses count until they are sent; None counts none.
    """

    def __init__(
        self, in_flight: InFlight, limits: CallLimits | None, outgoing: Outgoing | None
    ) -> None:
        self._in_flight = in_flight
        self._limits = limits
        self._outgoing = outgoing

    def slots_of(self, rpc: str) -> CallSlots | None:
        """The slots of "package.Service/Method"."""
        return None if self._limits is None else self._limits.of(rpc)

    def accept(self, context: Context, slots: CallSlots | None) -> "OpenCall":
        """Counts a call until gRPC has sent its answer, which a drain has to wait for.

        Raises:
            DrainingError: the server is shutting down.
            TooManyCallsError: the caller has no slot.
        """
        caller = request_context.caller.get()
        if slots is not None:
            slots.enter(caller)
        try:
            self._in_flight.enter()
        except BaseException:
            if slots is not None:
                slots.leave(caller)
            raise
        call = OpenCall(self._in_flight, slots, caller, self._outgoing)
        context.add_done_callback(call.close)  # type: ignore[arg-type]
        return call


class OpenCall:
    """A call that is accepted."""

    __slots__ = ("_caller", "_in_flight", "_outgoing", "_response", "_slots")

    def __init__(
        self, in_flight: InFlight, slots: CallSlots | None, caller: str, outgoing: Outgoing | None
    ) -> None:
        self._in_flight, self._slots, self._caller = in_flight, slots, caller
        self._outgoing = outgoing
        self._response: Response | None = None

    def answer(self, context: Context, response: Any) -> None:
        """The handler has returned what gRPC now sends."""
        if self._outgoing is not None and response is not None:
            self._response = self._outgoing.hold(context, _size(response))
            self._outgoing.begin(self._response)

    def close(self, _: Context) -> None:
        """The call has ended."""
        self._in_flight.leave()
        if self._slots is not None:
            self._slots.leave(self._caller)
        # Dropped, since it holds the context, whose callbacks hold this object: a circle that only
        # the garbage collector would undo.
        response, self._response = self._response, None
        if self._outgoing is not None and response is not None:
            self._outgoing.end(response)


class RefusalLog:
    """Logs refused calls: a line a second at most, with their number since the line before."""

    def __init__(self) -> None:
        self._count = 0
        self._logged = -LOG_INTERVAL_S

    def add(self, error: TooManyCallsError) -> None:
        """Counts a refused call, and logs it if none was logged in this second."""
        self._count += 1
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_S:
            log.warning("calls refused", calls=self._count, error=str(error))
            self._count, self._logged = 0, now


def _size(response: Any) -> int:
    if isinstance(response, bytes):
        return len(response)
    return response.ByteSize() if isinstance(response, Message) else 0
