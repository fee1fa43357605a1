"""One unary call over HTTP, from its request to the last byte of its answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import grpc
import structlog
from google.rpc import status_pb2
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farpoint_server.errors import InvalidRequestError, ServiceError, quoted, status_of
from farpoint_server.transport.admission import Admission, Reservation
from farpoint_server.transport.grpc.interceptor import REQUEST_ID_KEY, request_id_of
from farpoint_server.transport.http.calls import HttpContext, UnaryCalls
from farpoint_server.transport.sockets import peer_name

# Given to the socket at a time; more waits until the peer has read most of it.
PIECE_BYTES = 1 << 16
# Of a body that has no bound but the server's.
NO_BOUND = 1 << 62
# Converted on the event loop; the way to another thread costs more.
INLINE_BYTES = 1 << 14

HeaderList: TypeAlias = Sequence[tuple[str, str]]
T = TypeVar("T")
log = structlog.get_logger("farpoint.rpc")


@dataclass(frozen=True)
class BodyLimits:
    """Limits of the bodies of requests."""

    admission: Admission
    """Counts their bytes while they are received."""
    threads: ThreadPoolExecutor
    """Convert large ones."""
    max_bytes: int
    """Of one body."""
    clouds: int
    """Of one request."""


class Body:
    """The body of one request.

    Attributes:
        ended: Set once all of it has been received, or the caller has left.
    """

    def __init__(self, receive: Receive, headers: Headers, limits: BodyLimits) -> None:
        length = headers.get("content-length")
        self._length = None if length is None else int(length)
        self._receive, self._limits = receive, limits
        self.ended = asyncio.Event()

    async def read(self, convert: Callable[[bytes], bytes] | None, max_bytes: int) -> bytes:
        """The whole body, converted by `convert`.

        Raises:
            OverloadedError: the server has no memory for it.
            InvalidRequestError: it is larger than `max_bytes` or than the limit.
            asyncio.CancelledError: the caller has left.
        """
        most = min(max_bytes, self._limits.max_bytes)
        with self._limits.admission.reserve(0, 0) as reservation:
            raw = await self._read_all(most, reservation)
            if convert is None:
                return raw
            # The text and its message are in memory together.
            reservation.add(0, len(raw))
            return await self.run(convert, raw)

    async def run(self, convert: Callable[[bytes], T], raw: bytes) -> T:
        """Applies a function to bytes, on another thread if they are many."""
        if len(raw) <= INLINE_BYTES:
            return convert(raw)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._limits.threads, convert, raw)

    async def _read_all(self, most: int, reservation: Reservation) -> bytes:
        if self._length is not None and self._length > most:
            raise _too_large(most, f"{self._length} bytes")
        parts, size = [], 0
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self.ended.set()
                raise asyncio.CancelledError
            part: bytes = event.get("body", b"")
            size += len(part)
            if size > most:
                raise _too_large(most, "more")
            reservation.add(0, len(part))
            parts.append(part)
            if not event.get("more_body", False):
                self.ended.set()
                return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(most: int, got: str) -> InvalidRequestError:
    return InvalidRequestError("request", f"a body of at most {most} bytes", got)


class HttpResponse(NamedTuple):
    """An HTTP response."""

    status: int
    headers: HeaderList
    body: bytes


class Form(Protocol):
    """HTTP form of messages and answers; `protocol` is for the log.

    `max_bytes` of a body counts where it is below the server's limit.
    """

    protocol: str
    max_bytes: int

    @property
    def read(self) -> Callable[[bytes], bytes] | None:
        """The serialized message of a body; None if the body is one. Raises InvalidRequestError."""

    def write(self, raw: bytes) -> HttpResponse:
        """The answer with a serialized message."""

    def refuse(self, status: status_pb2.Status) -> HttpResponse:
        """The answer with an error."""


class Exchange:
    """Runs calls for an HTTP application, perhaps only of callers with a client certificate."""

    def __init__(self, calls: UnaryCalls, limits: BodyLimits, needs_certificate: bool) -> None:
        self.calls = calls
        self.limits = limits
        self._needs_certificate = needs_certificate

    async def run(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        method: str,
        form: Form,
        timeout_s: float | None = None,
    ) -> None:
        """Answers one request with the registered method "/package.Service/Method".

        A caller that leaves cancels the call; one whose time is over is answered.
        """
        refused = self._check(scope)
        if refused is not None:
            await send_all(send, form.refuse(refused))
            return
        headers, peer = Headers(scope=scope), peer_name(*(scope["client"] or ("unknown", 0)))
        named = ((REQUEST_ID_KEY, request_id_of(headers.items())),)
        metadata = (*(pair for pair in headers.items() if pair[0] != REQUEST_ID_KEY), *named)
        body = Body(receive, headers, self.limits)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        context = HttpContext(
            metadata, peer, deadline, lambda: body.read(form.read, form.max_bytes)
        )
        try:
            call = self.calls.start(method, context, form.protocol)
            answer = await self._wait(call, context, body, receive, form)
            if answer is not None:
                await send_all(send, answer, named)
        finally:
            context.close()

    def _check(self, scope: Scope) -> status_pb2.Status | None:
        """Why a request is refused; None if it is not."""
        if self._needs_certificate and not scope["state"].get("has_certificate"):
            text = "expected a client certificate, got none"
            return _status(grpc.StatusCode.UNAUTHENTICATED, text)
        encoding = Headers(scope=scope).get("content-encoding", "identity")
        if encoding != "identity":
            text = f"content-encoding: expected identity, got {quoted(encoding)}"
            return _status(grpc.StatusCode.UNIMPLEMENTED, text)
        return None

    async def _wait(
        self,
        call: "asyncio.Task[bytes]",
        context: HttpContext,
        body: Body,
        receive: Receive,
        form: Form,
    ) -> HttpResponse | None:
        """The answer of the call; None if the caller has left."""
        departure = asyncio.ensure_future(_cancel_when_left(call, body, receive))
        try:
            await asyncio.wait((call,), timeout=context.time_remaining())
            if is_late := not call.done():
                call.cancel()
                await asyncio.wait((call,))
            if call.cancelled():
                late = _status(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed")
                return form.refuse(late) if is_late else None
            return await self._convert(call, context, body, form)
        finally:
            departure.cancel()
            call.cancel()

    async def _convert(
        self, call: "asyncio.Task[bytes]", context: HttpContext, body: Body, form: Form
    ) -> HttpResponse:
        try:
            raw = call.result()
            return form.write(raw) if form.read is None else await body.run(form.write, raw)
        except grpc.aio.AbortError:
            return form.refuse(context.status())
        except Exception as error:  # of the form: those of handlers have their status by now
            if not isinstance(error, ServiceError):
                log.error("request", status="INTERNAL", exc_info=error)
            return form.refuse(status_of(error, request_id_of(context.invocation_metadata())))


async def send_all(send: Send, answer: HttpResponse, more_headers: HeaderList = ()) -> None:
    """Sends an answer; returns when the connection has accepted it or is closed."""
    headers = [*answer.headers, *more_headers, ("content-length", str(len(answer.body)))]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    last, body = answer.body, answer.body
    if len(body) > PIECE_BYTES:
        for begin in range(0, len(body), PIECE_BYTES):
            piece = body[begin : begin + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        last = b""
    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _cancel_when_left(call: "asyncio.Task[bytes]", body: Body, receive: Receive) -> None:
    await body.ended.wait()
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


def _status(code: grpc.StatusCode, message: str) -> status_pb2.Status:
    return status_pb2.Status(code=code.value[0], message=message)
