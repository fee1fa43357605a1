"""Streams that end when the bearer token of their caller is withdrawn."""

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import grpc

from farpoint_server.errors import UnauthenticatedError
from farpoint_server.transport.handlers import Behavior, Context, Handler, kind_of, write_all
from farpoint_server.transport.tokens import Token, TokenFile

POLL_S = 1.0
_token: ContextVar[Token] = ContextVar("token")


class TokenStreams:
    """The open calls whose callers stream, each with the token that opened it.

    Args:
        tokens: Where each is looked up again every POLL_S while calls are open.
        scope_of: The scope that a method needs.
    """

    def __init__(self, tokens: TokenFile, scope_of: Callable[[str], str | None]) -> None:
        self._tokens = tokens
        self._scope_of = scope_of
        self._open: set[_Stream] = set()
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
        """Ends calls whose token is withdrawn, until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            self._tokens.refresh()
            for stream in list(self._open):
                if not self._tokens.allows(stream.token, stream.scope):
                    stream.end()

    def _wrap(self, handler: "grpc.RpcMethodHandler[Any, Any]", scope: str) -> Handler:
        kind = kind_of(handler)
        behavior: Behavior = getattr(handler, kind)
        if inspect.isasyncgenfunction(behavior):
            behavior = write_all(behavior)

        async def followed(request: Any, context: Context) -> Any:
            stream = _Stream(_token.get(), scope)
            self._open.add(stream)
            try:
                return await behavior(request, context)
            except asyncio.CancelledError:
                if stream.is_withdrawn:
                    raise UnauthenticatedError("the token was withdrawn") from None
                raise
            finally:
                self._open.discard(stream)

        make: Callable[..., Handler] = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(followed, handler.request_deserializer, handler.response_serializer)


class _Stream:
    """An open call, of the task at hand."""

    __slots__ = ("_task", "is_withdrawn", "scope", "token")

    def __init__(self, token: Token, scope: str) -> None:
        self._task = asyncio.current_task()
        self.token = token
        self.scope = scope
        self.is_withdrawn = False

    def end(self) -> None:
        if self._task is not None and not self.is_withdrawn:
            self.is_withdrawn = True
            self._task.cancel()
