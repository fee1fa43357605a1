"""Messages of the Open Inference Protocol v2 as bodies of HTTP, and statuses as its errors."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import message_factory
from google.protobuf.message import Message
from google.rpc import status_pb2
from starlette.datastructures import Headers

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec import json_form
from farpoint_server.codec.open_inference import json_values
from farpoint_server.codec.open_inference.message import whole
from farpoint_server.codec.open_inference.rest import (
    RestRequest,
    read_rest_request,
    serialize_infer_message,
    write_rest_response,
)
from farpoint_server.errors import InvalidRequestError
from farpoint_server.services.open_inference.servicer import DESCRIPTOR
from farpoint_server.transport.http.exchange import NO_BOUND, Answer
from farpoint_server.transport.http.status import CODES, HTTP_STATUS, JSON

# Answers of which one field is the whole JSON, and such as are 400 where one is false.
WHOLE = {
    "ModelConfig": "config",
    "RepositoryIndex": "models",
}
TRUTH = {"ServerLive": "live", "ServerReady": "ready", "ModelReady": "ready"}
JSON_SIZE = "inference-header-content-length"


class CallForm:
    """Messages of a method as JSON with the names of the contract.

    Args:
        method: Its name.
        path: Fields of the request that the path has.
        _: Headers, of which nothing is needed.
    """

    protocol = "rest"
    max_bytes = json_values.MAX_BYTES

    def __init__(self, method: str, path: Mapping[str, str], _: Headers) -> None:
        described = DESCRIPTOR.methods_by_name[method]
        self._asked = message_factory.GetMessageClass(described.input_type)
        self._answered = message_factory.GetMessageClass(described.output_type)
        self._method = method
        self._path = path

    def read(self, body: bytes) -> bytes:
        """As Form."""
        text = json_values.read_json(memoryview(body)) if body else {}
        fields = dict(json_values.check_object(text, "request"))
        if "parameters" in fields:
            given = json_values.check_object(fields["parameters"], "parameters")
            fields["parameters"] = {name: _parameter(value) for name, value in given.items()}
        return json_form.parse(fields | dict(self._path), self._asked).SerializeToString()

    def write(self, raw: bytes) -> Answer:
        """As Form."""
        answer = plain(self._answered.FromString(raw))
        is_true = answer.get(TRUTH[self._method]) if self._method in TRUTH else True
        shown = answer[WHOLE[self._method]] if self._method in WHOLE else answer
        return Answer(200 if is_true else 400, (("content-type", JSON),), json_form.dump(shown))

    def refuse(self, status: status_pb2.Status) -> Answer:
        """As Form."""
        return refuse(status)


class InferForm:
    """A request and its response as JSON, with binary data behind it.

    Args:
        path: Name of the model, and its version perhaps.
        headers: Of the request.
    """

    protocol = "rest"
    max_bytes = NO_BOUND

    def __init__(self, path: Mapping[str, str], headers: Headers) -> None:
        self._path = path
        self._json_size = headers.get(JSON_SIZE)
        self._request = RestRequest(whole(pb.ModelInferRequest()), False, {})

    def read(self, body: bytes) -> bytes:
        """As Form."""
        size = self._json_size
        if size is not None and not (size.isascii() and size.isdigit() and len(size) < 20):
            raise InvalidRequestError(
                "Inference-Header-Content-Length", "a number", "something else"
            )
        name, version = self._path["name"], self._path.get("version", "")
        request = read_rest_request(name, version, body, None if size is None else int(size))
        # Not its tensors, which are on their way.
        self._request = request._replace(message=self._request.message)
        return serialize_infer_message(request.message)

    def write(self, raw: bytes) -> Answer:
        """As Form."""
        text, binary = write_rest_response(self._request, pb.ModelInferResponse.FromString(raw))
        if not binary:
            return Answer(200, (("content-type", JSON),), text)
        headers = (("content-type", "application/octet-stream"), (JSON_SIZE, str(len(text))))
        return Answer(200, headers, b"".join((text, *binary)))

    def refuse(self, status: status_pb2.Status) -> Answer:
        """As Form."""
        return refuse(status)


def refuse(status: status_pb2.Status) -> Answer:
    """A status as the protocol's JSON."""
    body = json_form.dump({"error": status.message})
    return Answer(HTTP_STATUS[CODES[status.code]], (("content-type", JSON),), body)


def plain(message: Message) -> dict[str, Any]:
    """A message as JSON with the names of the contract, and with numbers as numbers."""
    shown: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            shown[field.name] = {str(key): _shown(field, item) for key, item in value.items()}
        elif field.is_repeated:
            shown[field.name] = [_shown(field, item) for item in value]
        else:
            shown[field.name] = _shown(field, value)
    return shown


def _shown(field: Any, value: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    return value if field.enum_type is None else field.enum_type.values_by_number[value].name


def _parameter(value: Any) -> dict[str, Any]:
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param"}
    if type(value) not in kinds:
        raise InvalidRequestError(
            "parameters", "booleans, integers and strings", type(value).__name__
        )
    return {kinds[type(value)]: value}
