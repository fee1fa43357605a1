"""Unary RPCs by the Connect protocol (connectrpc.com): POST /package.Service/Method, proto or JSON.

Streams are left to gRPC. Connect's GET is left out: no method here is free of side effects on load.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.rpc import status_pb2
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farpoint_server.codec import json_form
from farpoint_server.errors import quoted
from farpoint_server.transport.http.exchange import NO_BOUND, Exchange, HttpResponse, send_all

PROTO, JSON = "application/proto", "application/json"
VERSION = "1"
TIMEOUT_DIGITS = 10
Code = grpc.StatusCode
# Connect's own table; see the protocol's "Error codes".
HTTP_STATUS = {
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}
CODES = {code.value[0]: code for code in Code}


class ProtoForm:
    """Binary messages, as in gRPC."""

    protocol = "connect"
    max_bytes = NO_BOUND
    read: Callable[[bytes], bytes] | None = None

    def write(self, raw: bytes) -> HttpResponse:
        """See Form."""
        return HttpResponse(200, (("content-type", PROTO),), raw)

    def refuse(self, status: status_pb2.Status) -> HttpResponse:
        """See Form."""
        return refuse(status)


class JsonForm(ProtoForm):
    """Messages of one method in their JSON form."""

    max_bytes = json_form.MAX_BYTES

    def __init__(self, method: MethodDescriptor, clouds: int) -> None:
        asked = message_factory.GetMessageClass(method.input_type)
        self._answered = message_factory.GetMessageClass(method.output_type)
        self.read = partial(json_form.read_json, kind=asked, clouds=clouds)

    def write(self, raw: bytes) -> HttpResponse:
        """See Form."""
        return HttpResponse(
            200, (("content-type", JSON),), json_form.write_json(raw, self._answered)
        )


class ConnectApp:
    """ASGI application of the paths "/package.Service/Method" of registered services."""

    def __init__(self, exchange: Exchange, services: Iterable[ServiceDescriptor]) -> None:
        self._methods: Mapping[str, MethodDescriptor] = {
            f"/{service.full_name}/{method.name}": method
            for service in services
            for method in service.methods
        }
        self._exchange, clouds = exchange, exchange.limits.clouds
        self._json = {path: JsonForm(method, clouds) for path, method in self._methods.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, headers = scope["path"], Headers(scope=scope)
        refusal = self._check(scope["method"], path, headers)
        if refusal is not None:
            await send_all(send, refusal)
            return
        timeout = headers.get("connect-timeout-ms")
        timeout_s = None if timeout is None else int(timeout) / 1e3
        form = ProtoForm() if _content_type(headers) == PROTO else self._json[path]
        await self._exchange.run(scope, receive, send, path, form, timeout_s)

    def _check(self, verb: str, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """Why a request is not a valid call; None if it is."""
        method = self._methods.get(path)
        if method is None or not self._exchange.calls.has(path):
            return error(Code.UNIMPLEMENTED, f"no method {quoted(path)}", status=404)
        if verb != "POST":
            return error(Code.UNIMPLEMENTED, "expected POST", ("allow", "POST"), status=405)
        if method.client_streaming or method.server_streaming:
            return error(Code.UNIMPLEMENTED, f"{method.name} is a stream, which needs gRPC")
        if _content_type(headers) not in (PROTO, JSON):
            text, post = f"content-type: expected {PROTO} or {JSON}", f"{PROTO}, {JSON}"
            return error(Code.INVALID_ARGUMENT, text, ("accept-post", post), status=415)
        return self._check_headers(headers)

    def _check_headers(self, headers: Mapping[str, str]) -> HttpResponse | None:
        version = headers.get("connect-protocol-version", VERSION)
        if version != VERSION:
            text = f"connect-protocol-version: expected {VERSION}, got {quoted(version)}"
            return error(Code.INVALID_ARGUMENT, text)
        timeout = headers.get("connect-timeout-ms", "1")
        if not (timeout.isascii() and timeout.isdigit() and len(timeout) <= TIMEOUT_DIGITS):
            text = f"connect-timeout-ms: expected up to {TIMEOUT_DIGITS} digits"
            return error(Code.INVALID_ARGUMENT, f"{text}, got {quoted(timeout)}")
        return None


def _content_type(headers: Mapping[str, str]) -> str:
    """The media type without a charset; other parameters make it unknown."""
    kind, _, parameter = headers.get("content-type", "").lower().partition(";")
    if kind.strip() == JSON and parameter.strip() in ("", "charset=utf-8"):
        return JSON
    return kind.strip() if not parameter else ""


def error(
    code: grpc.StatusCode, message: str, *headers: tuple[str, str], status: int | None = None
) -> HttpResponse:
    """The answer to a request without a call; `status` overrides the code's HTTP status."""
    answer = refuse(status_pb2.Status(code=code.value[0], message=message))
    return HttpResponse(status or answer.status, (*answer.headers, *headers), answer.body)


def refuse(status: status_pb2.Status) -> HttpResponse:
    """A status as Connect's JSON."""
    code = CODES[status.code]
    # "canceled" has one l here.
    name = "canceled" if code is Code.CANCELLED else code.name.lower()
    body: dict[str, Any] = {"code": name}
    if status.message:
        body["message"] = status.message
    if status.details:
        body["details"] = [_describe(detail) for detail in status.details]
    headers = [("content-type", JSON)]
    if code is Code.UNAUTHENTICATED:
        headers.append(("www-authenticate", "Bearer"))
    return HttpResponse(HTTP_STATUS[code], headers, json_form.dump(body))


def _describe(detail: AnyMessage) -> dict[str, str]:
    value = base64.b64encode(detail.value).decode().rstrip("=")
    return {"type": detail.TypeName(), "value": value}
