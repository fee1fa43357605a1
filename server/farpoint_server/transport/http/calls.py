"""Methods of a gRPC server, called without HTTP/2: the same handlers, interceptor and limits."""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, cast

import grpc
from google.rpc import status_pb2

from farpoint_server import request_context
from farpoint_server.transport.grpc.handlers import Context, Handler, kind_of
from farpoint_server.transport.grpc.interceptor import DETAILS_KEY

GenericHandlers: TypeAlias = "Sequence[grpc.GenericRpcHandler]"
Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]


@dataclass
class CallDetails:
    """The method and metadata of a call, like grpc.HandlerCallDetails."""

    method: str
    invocation_metadata: Metadata


class HttpContext:
    """One call, with the part of grpc.aio.ServicerContext that interceptors and handlers use.

    Args:
        metadata: Headers of the request, names in lower case.
        peer: As gRPC names it.
        deadline: Of the caller, in seconds of time.monotonic; None for never.
        receive: Receives the serialized message.

    Attributes:
        deserialize: Applied to the message, as the method's handler wants it.
        message: Of the status of an aborted call.
        trailers: Metadata of the answer or of the status.
    """

    def __init__(
        self,
        metadata: Metadata,
        peer: str,
        deadline: float | None,
        receive: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._metadata = metadata
        self._peer = peer
        self._deadline = deadline
        self._receive: Callable[[], Awaitable[bytes]] | None = receive
        self._callbacks: list[Callable[[Any], None]] = []
        self._code = grpc.StatusCode.OK
        self.message = ""
        self.trailers: Metadata = ()
        self.deserialize: Callable[[bytes], Any] | None = None

    async def read(self) -> Any:
        """The message at the first call, then EOF."""
        if self._receive is None:
            return grpc.aio.EOF
        receive, self._receive = self._receive, None
        message = await receive()
        return message if self.deserialize is None else self.deserialize(message)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """Aborts the call with a status."""
        self._code, self.message, self.trailers = code, details, trailing_metadata
        raise grpc.aio.AbortError(code, details)

    async def send_initial_metadata(self, _: Metadata) -> None:
        """Does nothing: headers are sent with the answer."""

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Sets metadata of the answer."""
        self.trailers = trailing_metadata

    def invocation_metadata(self) -> Metadata:
        """Headers of the request."""
        return self._metadata

    def peer(self) -> str:
        """The caller's address."""
        return self._peer

    def code(self) -> grpc.StatusCode:
        """The status of the call."""
        return self._code

    def status(self) -> status_pb2.Status:
        """Code, message and details of an aborted call, as in gRPC's trailers."""
        for key, value in self.trailers:
            if key == DETAILS_KEY and isinstance(value, bytes):
                return status_pb2.Status.FromString(value)
        code: int = self._code.value[0]
        return status_pb2.Status(code=code, message=self.message)

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Registers a function to call when the answer is sent or dropped."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """Calls these functions: the answer is sent or dropped."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class HandlerRegistry(Protocol):
    """Interface of a grpc.aio.Server on which servicers register methods."""

    def add_generic_rpc_handlers(self, generic_rpc_handlers: GenericHandlers) -> None: ...


class UnaryCalls:
    """Runs calls of registered methods, each in its own task.

    Args:
        interceptor: That of the gRPC servers.
    """

    def __init__(self, interceptor: grpc.aio.ServerInterceptor) -> None:
        self._interceptor = interceptor
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, generic_rpc_handlers: GenericHandlers) -> None:
        """Like grpc.aio.Server."""
        self._handlers.extend(generic_rpc_handlers)

    def start(self, method: str, context: HttpContext, protocol: str) -> "asyncio.Task[bytes]":
        """Starts a call of the registered "/package.Service/Method".

        The task is the call for logs, metrics and limits: to cancel it is what gRPC does when a
        caller leaves. It returns the serialized answer, nothing for a method that writes its
        answers itself, or raises grpc.aio.AbortError with the status in the context.
        """
        run = self._run(CallDetails(method, context.invocation_metadata()), context, protocol)
        # A connection's tasks would inherit the fields of the request before.
        return contextvars.Context().run(asyncio.get_running_loop().create_task, run)

    def has(self, method: str) -> bool:
        """Whether there is such a method."""
        details: Any = CallDetails(method, ())
        return any(handler.service(details) is not None for handler in self._handlers)

    async def _run(self, details: CallDetails, context: HttpContext, protocol: str) -> bytes:
        request_context.bind(protocol=protocol)
        handler = await self._interceptor.intercept_service(self._find, details)
        if handler is None:
            raise LookupError(details.method)
        context.deserialize = handler.request_deserializer
        behavior: Callable[[Any, Context], Awaitable[Any]] = getattr(handler, kind_of(handler))
        answer = await behavior(None, cast(Context, context))
        if answer is None:
            return b""
        serialize = handler.response_serializer
        return bytes(answer if serialize is None else serialize(answer))

    async def _find(self, details: Any) -> Handler:
        found = (handler.service(details) for handler in self._handlers)
        return next((handler for handler in found if handler is not None), None)
