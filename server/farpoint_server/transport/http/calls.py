"""Methods of a gRPC server, called without HTTP/2: the same handlers, interceptors and limits."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import grpc
from google.rpc import status_pb2

from farpoint_server import request_context
from farpoint_server.transport.handlers import Context, Handler, kind_of
from farpoint_server.transport.http.context import CallDetails, HttpContext
from farpoint_server.transport.interceptor import DETAILS_KEY

GenericHandlers: TypeAlias = "Sequence[grpc.GenericRpcHandler]"


class HandlerRegistry(Protocol):
    """A grpc.aio.Server, or a stand-in, where servicers register their methods."""

    def add_generic_rpc_handlers(self, generic_rpc_handlers: GenericHandlers) -> None: ...


class Registries:
    """Registers methods at several servers, one handler for all of them."""

    def __init__(self, *registries: HandlerRegistry) -> None:
        self._registries = registries

    def add_generic_rpc_handlers(self, generic_rpc_handlers: GenericHandlers) -> None:
        """As grpc.aio.Server."""
        for registry in self._registries:
            registry.add_generic_rpc_handlers(generic_rpc_handlers)


class UnaryCalls:
    """Runs single calls of registered methods, each in a task of its own.

    Args:
        interceptor: That of the gRPC servers.
    """

    def __init__(self, interceptor: grpc.aio.ServerInterceptor) -> None:
        self._interceptor = interceptor
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, generic_rpc_handlers: GenericHandlers) -> None:
        """As grpc.aio.Server."""
        self._handlers.extend(generic_rpc_handlers)

    def start(self, method: str, context: HttpContext, protocol: str) -> "asyncio.Task[bytes]":
        """Begins a call of "/package.Service/Method", which must be registered.

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


def status_of_abort(context: HttpContext) -> status_pb2.Status:
    """Code, message and details of an aborted call, as in gRPC's trailers."""
    for key, value in context.trailers:
        if key == DETAILS_KEY and isinstance(value, bytes):
            return status_pb2.Status.FromString(bytes(value))
    code: int = context.code().value[0]
    return status_pb2.Status(code=code, message=context.message)
