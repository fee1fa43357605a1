"""Statuses of gRPC in HTTP: the table of statuses, and Connect's JSON of an error."""

import base64
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from farpoint_server.codec import json_form
from farpoint_server.transport.http.exchange import Answer

JSON = "application/json"
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
DETAILS = {
    kind.DESCRIPTOR.full_name: kind
    for kind in (error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
}


def error(
    code: grpc.StatusCode, message: str, *headers: tuple[str, str], status: int | None = None
) -> Answer:
    """The answer to a request without a call; `status` overrides the code's HTTP status."""
    answer = refuse(status_pb2.Status(code=code.value[0], message=message))
    return Answer(status or answer.status, (*answer.headers, *headers), answer.body)


def refuse(status: status_pb2.Status) -> Answer:
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
    return Answer(HTTP_STATUS[code], headers, json_form.dump(body))


def _describe(detail: AnyMessage) -> dict[str, Any]:
    name = detail.type_url.rpartition("/")[2]
    value = base64.b64encode(detail.value).decode().rstrip("=")
    described: dict[str, Any] = {"type": name, "value": value}
    kind = DETAILS.get(name)
    if kind is not None:
        described["debug"] = json_format.MessageToDict(kind.FromString(detail.value))
    return described
