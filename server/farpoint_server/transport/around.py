"""Something to run around each call of our own services, of whichever kind the call is."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import grpc

from farpoint_server.transport.interceptor import PACKAGES, Behavior, Context, Handler

Scope: TypeAlias = "Callable[[str, Context, grpc.HandlerCallDetails], AbstractContextManager[None]]"


class Around(grpc.aio.ServerInterceptor):
    """Enters `scope` before a call's handler and leaves it when the answer is complete.

    It must be outside of the boundary of calls, which turns every handler into a coroutine
    function.

    Args:
        scope: Given the method as "package.Service/Method", the call's context and its details.
            What the handler raises passes through it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)[1:]
        if handler is None or not method.startswith(PACKAGES):
            return handler
        kind = kind_of(handler)
        behavior: Behavior = getattr(handler, kind)

        async def around(request: Any, context: Context) -> Any:
            with self._scope(method, context, handler_call_details):
                return await behavior(request, context)

        make: Callable[..., Handler] = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(around, handler.request_deserializer, handler.response_serializer)


def kind_of(handler: "grpc.RpcMethodHandler[Any, Any]") -> str:
    """ "unary_unary", "stream_unary", "unary_stream" or "stream_stream"."""
    sends = "stream" if handler.request_streaming else "unary"
    return f"{sends}_{'stream' if handler.response_streaming else 'unary'}"
