"""The part of grpc.aio.ServicerContext that interceptors and handlers use, for one HTTP request."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import grpc
from starlette.types import Scope

from farpoint_server.transport.limits import peer_name

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]


@dataclass
class CallDetails:
    """A call for interceptors, as grpc.HandlerCallDetails."""

    method: str
    invocation_metadata: Metadata


class HttpContext:
    """One call: its message, deadline and caller, and its status.

    Args:
        metadata: Headers of the request, names in lower case.
        peer: As gRPC names it; see `peer_of`.
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
        """The message at the first call, and EOF from then on."""
        if self._receive is None:
            return grpc.aio.EOF
        receive, self._receive = self._receive, None
        message = await receive()
        return message if self.deserialize is None else self.deserialize(message)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """Ends the call with a status."""
        self._code, self.message, self.trailers = code, details, trailing_metadata
        raise grpc.aio.AbortError(code, details)

    async def send_initial_metadata(self, _: Metadata) -> None:
        """Headers are sent with the answer."""

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

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Has a function called when the answer is sent or dropped."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """The answer is sent or dropped."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def metadata_of(scope: Scope) -> Metadata:
    """The headers of an ASGI request as gRPC metadata."""
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
    )


def peer_of(scope: Scope) -> str:
    """The peer of an ASGI request."""
    return peer_name(*(scope["client"] or ("unknown", 0)))
