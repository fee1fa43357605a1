"""One unary call over HTTP, from its request to the last byte of its answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import grpc
import structlog
from google.rpc import status_pb2
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farpoint_server.errors import ServiceError, quoted, status_of
from farpoint_server.transport.grpc.interceptor import REQUEST_ID_KEY, request_id_of
from farpoint_server.transport.http.body import Body, BodyLimits
from farpoint_server.transport.http.calls import HttpContext, UnaryCalls
from farpoint_server.transport.sockets import peer_name

# Given to the socket at a time; more waits until the peer has read most of it.
PIECE_BYTES = 1 << 16
# Of a body that has no bound but the server's.
NO_BOUND = 1 << 62
HeaderList: TypeAlias = Sequence[tuple[str, str]]
log = structlog.get_logger("farpoint.rpc")


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
