"""gRPC server interceptor that checks bearer tokens, and the file that lists them."""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from farpoint_server import request_context
from farpoint_server.errors import (
    PermissionDeniedError,
    SecretsUnusableError,
    ServiceError,
    UnauthenticatedError,
)
from farpoint_server.transport.handlers import Context, Handler
from farpoint_server.transport.reloading import ReloadedFiles

KEY = "authorization"
SCHEME = "bearer"
# Whoever probes health has no token as a rule, and the contract is no secret.
OPEN = ("grpc.health.v1.", "grpc.reflection.")
SCOPE_OF_SERVICE = {
    "farpoint.v1.SamplingService": "sample",
    "inference.GRPCInferenceService": "sample",
}
SCOPES = frozenset({"sample", "admin"})
# 128 bits in hexadecimal; what is shorter was typed by hand.
MIN_CHARACTERS = 32
DIGEST_PREFIX = "sha256:"


@dataclass(frozen=True)
class Token:
    """A line of the file. The token itself is not kept, only its SHA-256."""

    name: str
    scopes: frozenset[str]
    digest: bytes


class TokenFile:
    """The tokens of a file, read again when it changes.

    A line is ``NAME SCOPES TOKEN``: a name for the log, scopes separated by commas, and the token
    (at least 32 characters) or ``sha256:`` with its hash in hexadecimal. Empty lines and lines
    that begin with # do not count.

    Raises:
        SecretsUnusableError: the file cannot be read, or a line is wrong.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._tokens = ReloadedFiles([path], lambda: parse_tokens(path.read_text()))
        except (OSError, ValueError) as error:
            raise SecretsUnusableError(f"--tokens-file {path}: {error}") from error

    def find(self, shown: str) -> Token | None:
        """The token that a caller shows, in a time that does not depend on which it is."""
        digest = _digest(shown)
        found = None
        for token in self._tokens.get():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Lets a call pass if its token has the scope of its service.

    It decides before the message is received. It must be inside of RequestInterceptor, which gives
    its refusals their status.
    """

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens

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
        return handler

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


def parse_tokens(text: str) -> Sequence[Token]:
    """Tokens of a file's text; raises ValueError with the number of the first wrong line.

    No message quotes a token: it would end in the log.
    """
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[0] in tokens:
            raise ValueError(f"line {number}: expected NAME SCOPES TOKEN with a name of its own")
        name, scopes, token = words
        tokens[name] = Token(name, _scopes(scopes, number), _read_token(token, number))
    if not tokens:
        raise ValueError("expected at least one line NAME SCOPES TOKEN, got none")
    return tuple(tokens.values())


def _scopes(text: str, number: int) -> frozenset[str]:
    scopes = frozenset(text.split(","))
    if not scopes <= SCOPES:
        raise ValueError(f"line {number}: expected scopes of {', '.join(sorted(SCOPES))}")
    return scopes


def _read_token(token: str, number: int) -> bytes:
    if token.startswith(DIGEST_PREFIX):
        digits = token.removeprefix(DIGEST_PREFIX)
        if not re.fullmatch(r"[0-9a-fA-F]{64}", digits):
            raise ValueError(f"line {number}: expected 64 hexadecimal digits after sha256:")
        return bytes.fromhex(digits)
    if len(token) < MIN_CHARACTERS:
        raise ValueError(f"line {number}: expected a token of {MIN_CHARACTERS} characters or more")
    return _digest(token)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
