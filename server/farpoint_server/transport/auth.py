"""gRPC server interceptor that checks bearer tokens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc

from farpoint_server import request_context
from farpoint_server.errors import (
    PermissionDeniedError,
    ServiceError,
    UnauthenticatedError,
)
from farpoint_server.transport.handlers import Context, Handler
from farpoint_server.transport.token_streams import TokenStreams
from farpoint_server.transport.tokens import Token, TokenFile

KEY = "authorization"
SCHEME = "bearer"
# Whoever probes health has no token as a rule, and the contract is no secret.
OPEN = ("grpc.health.v1.", "grpc.reflection.")
SCOPE_OF_SERVICE = {
    "farpoint.v1.SamplingService": "sample",
    "inference.GRPCInferenceService": "sample",
}
# What a method needs instead of its service's scope.
SCOPE_OF_METHOD = {
    "/inference.GRPCInferenceService/RepositoryModelLoad": "admin",
    "/inference.GRPCInferenceService/RepositoryModelUnload": "admin",
}


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Lets a call pass if its token has the scope of its service.

    It decides before the message is received. It must be inside of RequestInterceptor, which gives
    its refusals their status. Streams that are open when their token is withdrawn are ended.
    """

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._streams = TokenStreams(tokens, scope_of)
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks for withdrawn tokens from now on."""
        self._watching = asyncio.create_task(self._streams.watch())

    def stop(self) -> None:
        """Ends that."""
        if self._watching is not None:
            self._watching.cancel()

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        handler = await continuation(handler_call_details)
        scope = scope_of(str(handler_call_details.method))
        if handler is None or scope is None:
            return handler
        try:
            token = self._authorize(handler_call_details.invocation_metadata or (), scope)
        except ServiceError as error:
            return _refusal(handler, error)
        request_context.bind(caller=token.name)
        if not handler.request_streaming:
            return handler
        return self._streams.follow(str(handler_call_details.method), handler, token)

    def _authorize(self, metadata: Iterable[Any], scope: str) -> Token:
        shown = _bearer_token(metadata)
        if shown is None:
            raise UnauthenticatedError("expected metadata authorization: Bearer TOKEN, got none")
        token = self._tokens.find(shown)
        if token is None:
            raise UnauthenticatedError("the token is not known to this server")
        if scope not in token.scopes:
            raise PermissionDeniedError(f"the token of {token.name!r} lacks the scope {scope!r}")
        return token


def scope_of(method: str) -> str | None:
    """Scope that "/package.Service/Method" needs; None if it is open to all.

    A service that is not listed needs admin, so that forgetting to list one opens nothing.
    """
    if method in SCOPE_OF_METHOD:
        return SCOPE_OF_METHOD[method]
    service = method.removeprefix("/").rpartition("/")[0]
    return None if service.startswith(OPEN) else SCOPE_OF_SERVICE.get(service, "admin")


def _bearer_token(metadata: Iterable[Any]) -> str | None:
    for key, value in metadata:
        if key == KEY and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == SCHEME and token:
                return token.strip()
    return None


def _refusal(handler: "grpc.RpcMethodHandler[Any, Any]", error: ServiceError) -> Handler:
    """A handler that raises without receiving the message."""

    async def refuse(request: Any, context: Context) -> Any:  # noqa: ARG001
        raise error

    # On the wire a message and a stream of one are the same, and a stream need not be read.
    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    return grpc.stream_unary_rpc_method_handler(refuse)
