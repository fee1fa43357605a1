"""The boundary of every call: request id, acceptance, the status of errors, one log line.

Servicers behind it convert, delegate and convert; they catch nothing.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol, TypeAlias, cast

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2

from farpoint_server import request_context as call
from farpoint_server.errors import STATUS, InvalidRequestError, ServiceError
from farpoint_server.request_context import Fields
from farpoint_server.transport.drain import InFlight

REQUEST_ID_KEY = "x-request-id"
DETAILS_KEY = "grpc-status-details-bin"
# Services behind the boundary. A probe of health every few seconds would drown what is of interest.
PACKAGES = ("farpoint.", "inference.", "grpc.channelz.")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Behavior: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"
log = structlog.get_logger("farpoint.rpc")


class Meter(Protocol):
    """What is told of the end of each call and of each request in it; see metrics/calls.py.

    `rpc` is "package.Service/Method" and `code` the name of a gRPC status.
    """

    def end_call(self, rpc: str, code: str, seconds: float) -> None: ...

    def end_request(
        self, rpc: str, seconds: float, error: Exception | None, fields: Fields
    ) -> None: ...


class Unmetered:
    """Counts nothing."""

    def end_call(self, rpc: str, code: str, seconds: float) -> None: ...

    def end_request(
        self, rpc: str, seconds: float, error: Exception | None, fields: Fields
    ) -> None: ...


def log_served(fields: Fields) -> None:
    """Writes the line of a request that was served, as any other line."""
    log.info(**fields)


class Boundary(grpc.aio.ServerInterceptor):
    """Wraps the calls of the services in PACKAGES; health and reflection pass as they are.

    A behavior is a coroutine function that returns one answer, or that writes its answers itself.

    Args:
        in_flight: Where calls are counted between acceptance and answer.
        meter: Told of their ends.
        write_served: Writes the line of a request that was served, given all of its fields.
    """

    def __init__(
        self,
        in_flight: InFlight,
        meter: Meter | None = None,
        write_served: Callable[[Fields], None] = log_served,
    ) -> None:
        self._in_flight = in_flight
        self._meter = meter or Unmetered()
        self._write_served = write_served
        self._guarded: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        call.bind(request_id=request_id_of(handler_call_details.invocation_metadata))
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None:
            return None
        # A method has one handler as a rule, but a refusal of tokens is one of its own.
        known, guarded = self._guarded.get(method, (None, None))
        if known is handler:
            return guarded
        if not method[1:].startswith(PACKAGES):
            return handler
        guarded = self._wrap(method[1:], handler)
        self._guarded[method] = handler, guarded
        return guarded

    def _wrap(self, rpc: str, handler: "grpc.RpcMethodHandler[Any, Any]") -> Handler:
        for kind, make in _KINDS.items():
            behavior = getattr(handler, kind)
            if behavior is not None:
                return make(
                    self._guard(rpc, cast(Behavior, behavior)),
                    request_deserializer=_tolerant(handler.request_deserializer),
                    response_serializer=handler.response_serializer,
                )
        return handler

    def _guard(self, rpc: str, behavior: Behavior) -> Behavior:
        method, meter, write_served = rpc.rpartition("/")[2], self._meter, self._write_served

        def end_request(seconds: float, error: Exception | None, fields: Fields) -> None:
            meter.end_request(rpc, seconds, error, fields)
            if error is None:
                write_served(fields)

        async def guarded(request: Any, context: Context) -> Any:
            arrived, code = time.monotonic(), "OK"
            request_id = call.begin(end_request, method=method)["request_id"]
            context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
            try:
                self._accept(request, context)
                answer = await behavior(request, context)
            except asyncio.CancelledError:
                code = "CANCELLED"
                log.info("request", status=code, server_ms=_ms_since(arrived))
                raise
            except Exception as error:
                code = _code_of(error).name
                log_end(arrived, error)
                let_go(error)
                await _abort(context, request_id, error)
            else:
                log_end(arrived)
                return answer
            finally:
                meter.end_call(rpc, code, time.monotonic() - arrived)

        return guarded

    def _accept(self, request: Any, context: Context) -> None:
        self._in_flight.enter()
        # gRPC calls back after the answer is sent, which a drain has to wait for.
        context.add_done_callback(self._leave)  # type: ignore[arg-type]
        if isinstance(request, ServiceError):
            raise request

    def _leave(self, _: Context) -> None:
        self._in_flight.leave()


def _tolerant(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Bytes that do not parse become the error to raise: gRPC itself would answer INTERNAL."""

    def parse(data: bytes) -> Message | InvalidRequestError:
        try:
            return deserialize(data)  # type: ignore[misc,no-any-return]
        except DecodeError:
            return parse_error(data)

    return None if deserialize is None else parse


def parse_error(data: bytes) -> InvalidRequestError:
    """For bytes that are not the message they should be."""
    return InvalidRequestError("request", "a serialized message", f"{len(data)} other bytes")


def request_id_of(metadata: Any) -> str:
    """The caller's id if it can stand in a log line and in metadata; a new one otherwise."""
    for key, value in metadata or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and 0 < len(value) <= 128:
            return value
    return f"{random.getrandbits(128):032x}"


def _code_of(error: Exception) -> grpc.StatusCode:
    return STATUS[type(error)] if isinstance(error, ServiceError) else grpc.StatusCode.INTERNAL


def status_of(error: Exception, request_id: str) -> status_pb2.Status:
    """What the caller is told of an error; that of a bug says nothing but where to look."""
    if not isinstance(error, ServiceError):
        message = f"internal error; the server logged it for request {request_id}"
        return status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=message)
    status = status_pb2.Status(code=STATUS[type(error)].value[0], message=str(error))
    for detail in error.details():
        status.details.add().Pack(detail)
    return status


def log_end(arrived: float, error: Exception | None = None) -> None:
    """The one line of a request that ended, with the traceback if it met a bug."""
    request, seconds = call.current(), time.monotonic() - arrived
    status = "OK" if error is None else _code_of(error).name
    ended = {"event": "request", "status": status, "server_ms": round(seconds * 1e3, 3)}
    request.on_end(seconds, error, request.fields | ended)
    if isinstance(error, ServiceError):
        log.info(**ended, error=str(error))
    elif error is not None:
        log.error(**ended, exc_info=error)


def let_go(error: BaseException | None) -> None:
    """Drops the frames of an error that is dealt with, and the request that their variables hold.

    gRPC keeps what `abort` raises, and a future keeps the error that it was given: circles, which
    only the garbage collector undoes. It counts objects, not bytes, and does not run on a server
    that is idle, so a refused request would stay in memory until many others have come.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


async def _abort(context: Context, request_id: str, error: Exception) -> NoReturn:
    status = status_of(error, request_id)
    trailers = [(REQUEST_ID_KEY, request_id)]
    if status.details:
        trailers.append((DETAILS_KEY, status.SerializeToString()))
    await context.abort(_code_of(error), status.message, tuple(trailers))


def _ms_since(moment: float) -> float:
    return round((time.monotonic() - moment) * 1e3, 3)


_KINDS: "dict[str, Callable[..., grpc.RpcMethodHandler[Any, Any]]]" = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}
