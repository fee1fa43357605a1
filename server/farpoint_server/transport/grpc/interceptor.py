"""gRPC server interceptor of every call: request id, token, acceptance, span, status, log line."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import structlog

from farpoint_server import request_context
from farpoint_server.errors import (
    ServiceError,
    clear_tracebacks,
    code_of,
    status_of,
)
from farpoint_server.request_context import (
    TOKEN_PREFIX,
    Fields,
    OnEnd,
    RequestContext,
    address_of,
)
from farpoint_server.transport.auth import Auth
from farpoint_server.transport.grpc.handlers import Behavior, Context, Handler, adapt
from farpoint_server.transport.limits import CallLimits, CallSlots, InFlight, OpenCall
from farpoint_server.transport.outgoing import Outgoing
from farpoint_server.transport.tracing import Tracing

if TYPE_CHECKING:
    from typing_extensions import Unpack

REQUEST_ID_KEY = "x-request-id"
DETAILS_KEY = "grpc-status-details-bin"
# Services whose calls are logged and counted; probes of health would drown them.
PACKAGES = ("farpoint.", "inference.")

log = structlog.get_logger("farpoint.rpc")
_request_id: ContextVar[str] = ContextVar("request_id")


class RequestMetrics:
    """Counts calls and requests when they end; this base class counts nothing.

    `rpc` is "package.Service/Method" and `code` the name of a gRPC status.
    """

    def end_call(self, rpc: str, code: str, seconds: float) -> None: ...

    def end_request(
        self, rpc: str, seconds: float, error: Exception | None, fields: Fields
    ) -> None: ...


class RequestInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the calls of the services in PACKAGES and bounds those of health and reflection.

    A method of any kind may return its answer, write its answers itself or yield them.
    """

    def __init__(
        self,
        in_flight: InFlight,
        metrics: RequestMetrics | None = None,
        limits: CallLimits | None = None,
        outgoing: Outgoing | None = None,
        auth: Auth | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._in_flight, self._limits, self._outgoing = in_flight, limits, outgoing
        self._metrics = metrics or RequestMetrics()
        self._auth, self._tracing = auth, tracing
        self._guarded: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # The context of the call would make its metadata anew.
        metadata = handler_call_details.invocation_metadata or ()
        _request_id.set(request_id_of(metadata))
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        rpc = str(handler_call_details.method)[1:]
        if self._auth is not None:
            self._auth.identify(rpc, metadata)
        # Servers that share this interceptor may have handlers of their own.
        known, guarded = self._guarded.get(rpc, (None, None))
        if known is handler:
            return guarded
        guarded = adapt(handler, partial(self._guard, rpc, handler.request_streaming))
        self._guarded[rpc] = handler, guarded
        return guarded

    def _guard(self, rpc: str, is_stream: bool, behavior: Behavior) -> Behavior:
        if self._auth is not None:
            behavior = self._auth.guard(rpc, behavior, is_stream=is_stream)
        slots = None if self._limits is None else self._limits.of(rpc)
        guard = self._guard_request if rpc.startswith(PACKAGES) else self._guard_probe
        return guard(rpc, slots, behavior)

    def _guard_request(self, rpc: str, slots: CallSlots | None, behavior: Behavior) -> Behavior:
        method, metrics = rpc.rpartition("/")[2], self._metrics
        end_request, tracing = partial(metrics.end_request, rpc), self._tracing

        async def guarded(request: Any, context: Context) -> Any:
            arrived, code, request_id = time.monotonic(), "OK", _request_id.get()
            begin(end_request, context.peer(), request_id=request_id, method=method)
            context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
            span = tracing and tracing.begin(rpc, context.invocation_metadata())
            try:
                call = OpenCall(context, self._in_flight, slots, self._outgoing)
                answer = await behavior(request, context)
                await self._in_flight.may_answer()
                if self._outgoing is not None and answer is not None:
                    call.response = self._outgoing.send(context, answer)
                log_end(arrived)
                return answer
            except (asyncio.CancelledError, grpc.aio.InternalError):
                # The latter where the caller leaves while gRPC sends or receives.
                code = "CANCELLED"
                _log_left(arrived)
                raise asyncio.CancelledError from None
            except Exception as error:
                code = code_of(error).name
                log_end(arrived, error)
                clear_tracebacks(error)
                await self._in_flight.may_answer()
                await _abort(context, request_id, error)
            finally:
                metrics.end_call(rpc, code, time.monotonic() - arrived)
                if tracing and span:
                    tracing.end(span, grpc.StatusCode[code])

        return guarded

    def _guard_probe(self, rpc: str, slots: CallSlots | None, behavior: Behavior) -> Behavior:
        """Call of health or reflection: no log line, no metric except refusals."""
        end_request = partial(self._metrics.end_request, rpc)

        async def guarded(request: Any, context: Context) -> Any:
            request_id = _request_id.get()
            begin(end_request, context.peer(), request_id=request_id)
            caller = request_context.caller.get()
            try:
                if slots is not None:
                    slots.enter(caller)
                    context.add_done_callback(lambda _: slots.leave(caller))  # type: ignore[arg-type]
                return await behavior(request, context)
            except grpc.aio.InternalError:  # the caller has left
                raise asyncio.CancelledError from None
            except ServiceError as error:
                end_request(0.0, error, {})
                await _abort(context, request_id, error)

        return guarded


def begin(on_end: OnEnd, peer: str, **fields: "Unpack[Fields]") -> None:
    """Starts the request of an RPC with the fields that its interceptors have bound.

    Its caller has the name of its token, or else of its address.

    Args:
        on_end: Called when the request ends.
        peer: As gRPC names it; see `address_of`.
        fields: More of them.
    """
    known = request_context.variable.get()
    if known is not None:
        fields = known.fields | fields
    token = fields.get("caller")
    name = address_of(peer) if token is None else f"{TOKEN_PREFIX}{token}"
    request_context.caller.set(name)
    request_context.variable.set(RequestContext(fields, on_end))


def request_id_of(metadata: Any) -> str:
    """The caller's id if it is valid in a log line and in metadata, else a new one."""
    for key, value in metadata or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and 0 < len(value) <= 128:
            return value
    return f"{random.getrandbits(128):032x}"


def log_end(arrived: float, error: Exception | None = None) -> None:
    """Logs the line of a finished request, with the traceback of a bug.

    Args:
        arrived: Its begin in seconds of time.monotonic.
        error: Its end; None if it was served.
    """
    request, seconds = request_context.variable.get(), time.monotonic() - arrived
    status = "OK" if error is None else code_of(error).name
    ended = {"event": "request", "status": status, "server_ms": _ms(seconds)}
    if error is None:
        log.info(**ended)
    elif isinstance(error, ServiceError):
        log.info(**ended, error=str(error))
    else:
        log.error(**ended, exc_info=error)
    if request is not None:
        request.on_end(seconds, error, request.fields)


def _log_left(arrived: float) -> None:
    """Logs the line of a call whose caller has left."""
    log.info("request", status="CANCELLED", server_ms=_ms(time.monotonic() - arrived))


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


async def _abort(context: Context, request_id: str, error: Exception) -> NoReturn:
    status = status_of(error, request_id)
    trailers: list[tuple[str, str | bytes]] = [(REQUEST_ID_KEY, request_id)]
    if status.details:
        trailers.append((DETAILS_KEY, status.SerializeToString()))
    await context.abort(code_of(error), status.message, tuple(trailers))
