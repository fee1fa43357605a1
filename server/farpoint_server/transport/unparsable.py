"""gRPC method handlers that answer bytes which are no message with INVALID_ARGUMENT.

gRPC itself answers INTERNAL and logs a traceback. Our own services have RequestInterceptor for
this; health and reflection, which pass it, are wrapped one by one.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from farpoint_server.errors import InvalidRequestError
from farpoint_server.transport.handlers import Context, kind_of, tolerant


def refuse_unparsable(
    handler: "grpc.RpcMethodHandler[Any, Any]",
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The same handler, whose messages are checked before it sees them.

    Args:
        handler: With a deserializer; "unary_unary", "unary_stream" or "stream_stream".
    """
    kind = kind_of(handler)
    behavior = getattr(handler, kind)

    async def unary_unary(request: Any, context: Context) -> Any:
        await _check(request, context)
        return await behavior(request, context)

    async def unary_stream(request: Any, context: Context) -> AsyncIterator[Any]:
        await _check(request, context)
        async for response in behavior(request, context):
            yield response

    async def stream_stream(requests: Any, context: Context) -> AsyncIterator[Any]:
        async for response in behavior(_checked(requests, context), context):
            yield response

    checked = {f.__name__: f for f in (unary_unary, unary_stream, stream_stream)}
    make: Any = getattr(grpc, f"{kind}_rpc_method_handler")
    made: grpc.RpcMethodHandler[Any, Any] = make(
        checked[kind],
        request_deserializer=tolerant(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )
    return made


async def _checked(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
    async for request in requests:
        await _check(request, context)
        yield request


async def _check(request: Any, context: Context) -> None:
    if isinstance(request, InvalidRequestError):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(request))
