"""Bearer tokens of calls: scopes of methods, and the end of streams with a revoked token."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from farpoint_server import request_context
from farpoint_server.errors import PermissionDeniedError, ServiceError, UnauthenticatedError
from farpoint_server.transport.grpc.handlers import Behavior, Context
from farpoint_server.transport.tokens import Token, TokenFile

KEY = "authorization"
SCHEME = "bearer"
# Probes of health have no token as a rule, and the contract is no secret.
OPEN = ("grpc.health.v1.", "grpc.reflection.")
SCOPE_OF_SERVICE = {
    "farpoint.v1.SamplingService": "sample",
    "inference.GRPCInferenceService": "sample",
}
POLL_S = 1.0
_grant: ContextVar[Token | ServiceError] = ContextVar("grant")


class Auth:
    """Authorizes calls whose token has the scope of the method.

    Streams that are open when their token is revoked are ended.
    """

    def __init__(self, tokens: TokenFile, poll_s: float = POLL_S) -> None:
        self._tokens, self._poll_s = tokens, poll_s
        self._open: dict[asyncio.Task[Any], tuple[Token, str]] = {}
        self._revoked: set[asyncio.Task[Any]] = set()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to check for revoked tokens."""
        self._watching = asyncio.create_task(self._watch())

    def stop(self) -> None:
        """Stops these checks."""
        if self._watching is not None:
            self._watching.cancel()

    def identify(self, rpc: str, metadata: Iterable[Any]) -> None:
        """Checks the token of the current call, whose name becomes the caller's."""
        scope = scope_of(rpc)
        if scope is None:
            return
        try:
            token = self._authorize(metadata, scope)
        except ServiceError as error:
            _grant.set(error)
        else:
            _grant.set(token)
            request_context.bind(caller=token.name)

    def guard(self, rpc: str, behavior: Behavior, *, is_stream: bool) -> Behavior:
        """A method that refuses a call without the right token before it is read.

        Args:
            rpc: "package.Service/Method".
            behavior: The method.
            is_stream: Whether the caller streams: then the call ends with its token.
        """
        scope = scope_of(rpc)
        if scope is None:
            return behavior

        async def authorized(request: Any, context: Context) -> Any:
            grant = _grant.get()
            if isinstance(grant, ServiceError):
                raise grant
            with self._follow(grant, scope) if is_stream else nullcontext():
                return await behavior(request, context)

        return authorized

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

    @contextmanager
    def _follow(self, token: Token, scope: str) -> Iterator[None]:
        """A block in which the current call is cancelled if its token is revoked."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = token, scope
        try:
            yield
        except asyncio.CancelledError:
            if task in self._revoked:
                raise UnauthenticatedError("the token was revoked") from None
            raise
        finally:
            del self._open[task]
            self._revoked.discard(task)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            self._tokens.refresh()
            for task, (token, scope) in list(self._open.items()):
                if task not in self._revoked and not self._tokens.allows(token, scope):
                    self._revoked.add(task)
                    task.cancel()


def scope_of(rpc: str) -> str | None:
    """Scope that "package.Service/Method" requires; None if it needs no token.

    A service that is not listed needs admin, so that forgetting to list one opens nothing.
    """
    service = rpc.rpartition("/")[0]
    return None if service.startswith(OPEN) else SCOPE_OF_SERVICE.get(service, "admin")


def _bearer_token(metadata: Iterable[Any]) -> str | None:
    for key, value in metadata:
        if key == KEY and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == SCHEME and token:
                return token.strip()
    return None
