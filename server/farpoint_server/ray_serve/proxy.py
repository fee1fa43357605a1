"""What runs in Ray Serve's gRPC proxies: the RPCs they take, and what they add to each call.

A proxy hands a call to a replica and knows no deadline, no retry and no details of an error. Here a
call is given its application and its deadline; one whose replica has died is repeated; and what Ray
says by itself gets the status and the details that a server of ours would give.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import grpc

from farpoint_server.errors import DrainingError, OverloadedError, ServiceError, code_of, status_of
from farpoint_server.ray_serve.methods import APPLICATION, METHODS, TIMEOUT_KEY, Method
from farpoint_server.transport.interceptor import DETAILS_KEY, REQUEST_ID_KEY, request_id_of

Metadata: TypeAlias = "tuple[tuple[str, str | bytes], ...]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
ATTEMPTS = 4
PAUSE_S = 0.05
RETRY_MS = 100


def add_to_server(_: object, server: Any) -> None:
    """Registers every RPC; Ray calls it in each proxy, with a server that replaces behaviors."""
    server.add_generic_rpc_handlers((GuardedHandlers(METHODS),))


class GuardedHandlers(grpc.GenericRpcHandler):
    """The RPCs of a proxy. Messages stay serialized: what is wrong with one is found in a replica.

    Ray Serve reads `_method_handlers`, which grpc's own class has, and sets it to handlers with its
    behaviors; those are guarded when they are asked for.
    """

    def __init__(self, methods: tuple[Method, ...]) -> None:
        self._method_handlers: Mapping[str, Handler] = {
            method.path: _handler(method) for method in methods
        }
        self._guarded: dict[str, Handler] = {}

    def service(self, details: grpc.HandlerCallDetails) -> "Handler | None":
        """As grpc.GenericRpcHandler."""
        path = str(details.method)
        if path not in self._guarded and path in self._method_handlers:
            self._guarded[path] = _guard(self._method_handlers[path])
        return self._guarded.get(path)


class ProxyContext:
    """Stands in for gRPC's context in one attempt; what Ray sets is kept until it is settled.

    Args:
        context: gRPC's.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._code = grpc.StatusCode.OK
        self._details = ""
        self._trailers: Metadata = ()
        given = context.invocation_metadata() or ()
        added = []
        if not any(key == "application" for key, _ in given):
            added.append(("application", APPLICATION))
        if (left := context.time_remaining()) is not None:
            added.append((TIMEOUT_KEY, str(max(0, int(left * 1e3)))))
        self._metadata: Metadata = (*(pair for pair in given if pair[0] != TIMEOUT_KEY), *added)

    def __getattr__(self, name: str) -> Any:
        """The peer, its identity, and what else Ray may want."""
        return getattr(self._context, name)

    def invocation_metadata(self) -> Metadata:
        """The caller's, with the application and the time that is left."""
        return self._metadata

    def code(self) -> grpc.StatusCode | int:
        """What was set; 0 where nothing was, as of gRPC's own."""
        return 0 if self._code is grpc.StatusCode.OK else self._code

    def details(self) -> str:
        """What was set."""
        return self._details

    def trailing_metadata(self) -> Metadata:
        """What was set."""
        return self._trailers

    def set_code(self, code: grpc.StatusCode) -> None:
        """Notes the status."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Notes the text of the status."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Notes the trailers."""
        self._trailers = tuple(trailing_metadata)

    @property
    def has_failed(self) -> bool:
        """Whether there is a status other than OK."""
        return self._code is not grpc.StatusCode.OK

    @property
    def has_lost_replica(self) -> bool:
        """Whether Ray has failed, since each answer of a replica's names the request."""
        named = any(key == REQUEST_ID_KEY for key, _ in self._trailers)
        return self._code is grpc.StatusCode.INTERNAL and not named

    def settle(self) -> None:
        """Gives gRPC what was set, in our words where they were Ray's."""
        error = self._error()
        if error is not None:
            request_id = request_id_of(self._metadata)
            status = status_of(error, request_id)
            self._code, self._details = code_of(error), status.message
            self._trailers = ((REQUEST_ID_KEY, request_id),)
            if status.details:
                self._trailers += ((DETAILS_KEY, status.SerializeToString()),)
        if self.has_failed:
            self._context.set_code(self._code)
            self._context.set_details(self._details)
        self._context.set_trailing_metadata(self._trailers)

    def _error(self) -> ServiceError | None:
        """What a server of ours would have raised; None for what a replica has said."""
        if self.has_lost_replica:
            return DrainingError("the replica ended before it answered")
        if any(key == REQUEST_ID_KEY for key, _ in self._trailers):
            return None
        if self._code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return OverloadedError("too many calls wait for a replica", RETRY_MS)
        return None


def _handler(method: Method) -> Handler:
    """One whose behavior Ray replaces."""
    sends = "stream" if method.reads_many else "unary"
    answers = "stream" if method.writes_many else "unary"
    make = getattr(grpc, f"{sends}_{answers}_rpc_method_handler")
    return make(_refuse)  # type: ignore[no-any-return]


async def _refuse(_: object, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Ray Serve has not taken this method")


def _guard(handler: Handler) -> Handler:
    kind = f"{'stream' if handler.request_streaming else 'unary'}_" + (
        "stream" if handler.response_streaming else "unary"
    )
    behavior: Any = getattr(handler, kind)
    if handler.response_streaming:
        guarded: Any = _guard_stream(behavior)
    else:
        # A stream that was read cannot be read again.
        guarded = _guard_unary(behavior, 1 if handler.request_streaming else ATTEMPTS)
    return handler._replace(**{kind: guarded})  # type: ignore[attr-defined,no-any-return]


def _guard_unary(
    behavior: Callable[[Any, ProxyContext], Awaitable[bytes]], attempts: int
) -> Callable[[Any, Any], Awaitable[bytes]]:
    """No method that Ray knows changes the server, so each may be repeated."""

    async def call(request: Any, context: Any) -> bytes:
        for attempt in range(attempts):
            attempted = ProxyContext(context)
            answer = await behavior(request, attempted)
            if not attempted.has_lost_replica:
                break
            await asyncio.sleep(PAUSE_S * 2**attempt)
        attempted.settle()
        return answer

    return call


def _guard_stream(
    behavior: Callable[[Any, ProxyContext], AsyncIterator[bytes]],
) -> Callable[[Any, Any], AsyncIterator[bytes]]:
    async def call(request: Any, context: Any) -> AsyncIterator[bytes]:
        attempted = ProxyContext(context)
        async for answer in behavior(request, attempted):
            if answer or not attempted.has_failed:  # else it came for the status alone
                yield answer
        attempted.settle()

    return call
