"""Open Inference Protocol v2 over REST, with Triton's extensions: a path for each unary RPC."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.message import Message
from google.rpc import status_pb2
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec import json_form
from farpoint_server.codec.open_inference.rest import (
    MAX_BYTES,
    load,
    read_rest_request,
    write_rest_response,
)
from farpoint_server.errors import InvalidRequestError
from farpoint_server.services.open_inference.repository import DESCRIPTOR
from farpoint_server.transport.http.connect import CODES, HTTP_STATUS, JSON
from farpoint_server.transport.http.exchange import NO_BOUND, Exchange, Form, HttpResponse

# In braces are fields of the request, whose others are in the body; what is in brackets may be
# left out.
PATHS = (
    ("GET", "/v2", "ServerMetadata"),
    ("GET", "/v2/health/live", "ServerLive"),
    ("GET", "/v2/health/ready", "ServerReady"),
    ("GET", "/v2/models/{name}[/versions/{version}]", "ModelMetadata"),
    ("GET", "/v2/models/{name}[/versions/{version}]/ready", "ModelReady"),
    ("GET", "/v2/models/{name}[/versions/{version}]/config", "ModelConfig"),
    ("POST", "/v2/models/{name}[/versions/{version}]/infer", "ModelInfer"),
    ("POST", "/v2/repository/index", "RepositoryIndex"),
)
# Answers of which one field is the whole JSON, and such as are 400 where one is false.
WHOLE = {"ModelConfig": "config", "RepositoryIndex": "models"}
TRUTH = {"ServerLive": "live", "ServerReady": "ready", "ModelReady": "ready"}
# Fields of sizes of tensors.
SIZES = ("dims", "shape")
JSON_SIZE = "inference-header-content-length"


def routes(exchange: Exchange) -> Sequence[BaseRoute]:
    """Routes for the application of HTTP."""
    return [
        Route(path, _Endpoint(exchange, method), methods=[verb])
        for verb, pattern, method in PATHS
        for path in _variants(pattern)
    ]


class _Endpoint:
    """ASGI application of the path of one method."""

    def __init__(self, exchange: Exchange, method: str) -> None:
        self._exchange = exchange
        self._method = f"/{DESCRIPTOR.full_name}/{method}"
        self._form: Callable[[Mapping[str, str], Headers], Form] = (
            InferForm if method == "ModelInfer" else partial(CallForm, method)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = self._form(scope["path_params"], Headers(scope=scope))
        await self._exchange.run(scope, receive, send, self._method, form)


class _RestForm:
    """The errors of both forms: an object with the text."""

    protocol = "rest"

    def refuse(self, status: status_pb2.Status) -> HttpResponse:
        body = json_form.dump({"error": status.message})
        return HttpResponse(HTTP_STATUS[CODES[status.code]], (("content-type", JSON),), body)


class CallForm(_RestForm):
    """Messages of a method as JSON with the names of the contract."""

    max_bytes = MAX_BYTES

    def __init__(self, method: str, path: Mapping[str, str], _: Headers) -> None:
        described = DESCRIPTOR.methods_by_name[method]
        self._request = message_factory.GetMessageClass(described.input_type)
        self._response = message_factory.GetMessageClass(described.output_type)
        self._method, self._path = method, path

    def read(self, body: bytes) -> bytes:
        fields = load(memoryview(body)) if body else {}
        return json_form.parse({**fields, **self._path}, self._request).SerializeToString()

    def write(self, raw: bytes) -> HttpResponse:
        answer = plain(self._response.FromString(raw))
        is_true = answer.get(TRUTH[self._method]) if self._method in TRUTH else True
        shown = answer[WHOLE[self._method]] if self._method in WHOLE else answer
        return HttpResponse(
            200 if is_true else 400, (("content-type", JSON),), json_form.dump(shown)
        )


class InferForm(_RestForm):
    """A request and its response as JSON, with binary data behind it."""

    max_bytes = NO_BOUND

    def __init__(self, path: Mapping[str, str], headers: Headers) -> None:
        self._path, self._json_size = path, headers.get(JSON_SIZE)
        self._request = pb.ModelInferRequest()

    def read(self, body: bytes) -> bytes:
        size = self._json_size
        if size is not None and not (size.isascii() and size.isdigit() and len(size) < 20):
            raise InvalidRequestError(
                "Inference-Header-Content-Length", "a number", "something else"
            )
        name, version = self._path["name"], self._path.get("version", "")
        json_size = None if size is None else int(size)
        # Kept for `write`, without its tensors.
        self._request, raw = read_rest_request(name, version, body, json_size)
        return raw

    def write(self, raw: bytes) -> HttpResponse:
        text, binary = write_rest_response(self._request, pb.ModelInferResponse.FromString(raw))
        if not binary:
            return HttpResponse(200, (("content-type", JSON),), text)
        headers = (("content-type", "application/octet-stream"), (JSON_SIZE, str(len(text))))
        return HttpResponse(200, headers, b"".join((text, *binary)))


def plain(message: Message) -> dict[str, Any]:
    """A message as JSON with the names of the contract, and with numbers as numbers."""
    shown = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return dict(_with_numbers(shown))


def _with_numbers(shown: Any, name: str = "") -> Any:
    """The same with integers for the texts that protobuf makes of those of 64 bits: of sizes."""
    if isinstance(shown, dict):
        return {name: _with_numbers(value, name) for name, value in shown.items()}
    if isinstance(shown, list):
        return [int(one) if name in SIZES else _with_numbers(one) for one in shown]
    return shown


def _variants(pattern: str) -> Iterable[str]:
    """A path without its optional part, and with it."""
    before, _, rest = pattern.partition("[")
    optional, _, after = rest.partition("]")
    return (before + after, before + optional + after) if optional else (pattern,)
