"""gRPC server interceptor that checks bearer tokens, and ends streams whose token is revoked."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any

import grpc

from farpoint_server import request_context
from farpoint_server.errors import (
    PermissionDeniedError,
    ServiceError,
    UnauthenticatedError,
)
from farpoint_server.transport.handlers import Behavior, Context, Handler, kind_of, write_all
from farpoint_server.transport.tokens import Token, TokenFile

KEY = "authorization"
SCHEME = "bearer"
# Probes of health have no token as a rule, and the contract is no secret.
OPEN = ("grpc.health.v1.", "grpc.reflection.")
SCOPE_OF_SERVICE = {
    "farpoint.v1.SamplingService": "sample",
    "inference.GRPCInferenceService": "sample",
}
# Of methods that need another scope than their service.
SCOPE_OF_METHOD = {
    "/inference.GRPCInferenceService/RepositoryModelLoad": "admin",
    "/inference.GRPCInferenceService/RepositoryModelUnload": "admin",
}
POLL_S = 1.0
_token: ContextVar[Token] = ContextVar("token")


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Lets a call pass if its token has the scope of its service.

    It decides before the message is received. It must be inside of RequestInterceptor, which gives
    its refusals their status. Streams that are open when their token is revoked are ended.
    """

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._streams = TokenStreams(tokens, scope_of)
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look for revoked tokens."""
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


class TokenStreams:
    """The open calls whose callers stream, each with the token that opened it."""

    def __init__(self, tokens: TokenFile, scope_of: Callable[[str], str | None]) -> None:
        self._tokens = tokens
        self._scope_of = scope_of
        self._open: dict[asyncio.Task[Any], tuple[Token, str]] = {}
        self._revoked: set[asyncio.Task[Any]] = set()
        self._followed: dict[str, tuple[Handler, Handler]] = {}

    def follow(
        self, method: str, handler: "grpc.RpcMethodHandler[Any, Any]", token: Token
    ) -> Handler:
        """The handler of a call that is about to begin, which ends with its token."""
        _token.set(token)
        known, followed = self._followed.get(method, (None, None))
        if known is not handler:
            followed = self._wrap(handler, self._scope_of(method) or "")
            self._followed[method] = handler, followed
        return followed

    async def watch(self) -> None:
        """Ends calls whose token is revoked, until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            self._tokens.refresh()
            for task, (token, scope) in list(self._open.items()):
                if task not in self._revoked and not self._tokens.allows(token, scope):
                    self._revoked.add(task)
                    task.cancel()

    def _wrap(self, handler: "grpc.RpcMethodHandler[Any, Any]", scope: str) -> Handler:
        kind = kind_of(handler)
        behavior: Behavior = getattr(handler, kind)
        if inspect.isasyncgenfunction(behavior):
            behavior = write_all(behavior)

        async def followed(request: Any, context: Context) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._open[task] = _token.get(), scope
            try:
                return await behavior(request, context)
            except asyncio.CancelledError:
                if task in self._revoked:
                    raise UnauthenticatedError("the token was revoked") from None
                raise
            finally:
                del self._open[task]
                self._revoked.discard(task)

        make: Callable[..., Handler] = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(followed, handler.request_deserializer, handler.response_serializer)


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
