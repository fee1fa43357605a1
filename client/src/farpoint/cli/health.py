"""grpc.health.v1 Check, with its two one-field messages packed by hand.

Generated code would register grpc/health/v1/health.proto a second time in a process that also
uses grpcio-health-checking, whose newer versions need protobuf 7.
"""

import grpc

from farpoint._rpcs.calls import CallContext
from farpoint.errors import NotFoundError, from_rpc_error

_METHOD = "/grpc.health.v1.Health/Check"
_STATUS_NAMES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


def check_health(channel: grpc.Channel, service: str, timeout: float | None) -> str:
    """Health of one service, or of the whole server for "": "SERVING" or another status name.

    Raises:
        FarpointError: the server did not answer.
    """
    context = CallContext(timeout)
    check = channel.unary_unary(
        _METHOD, request_serializer=_pack_request, response_deserializer=_unpack_response
    )
    try:
        return check(service, **context.rpc_options())
    except grpc.RpcError as error:
        failure = from_rpc_error(error, context.request_id)
        if isinstance(failure, NotFoundError):
            return "SERVICE_UNKNOWN"
        raise failure from error


def _pack_request(service: str) -> bytes:
    """Field 1, a string of fewer than 128 bytes, whose length is then a single byte."""
    name = service.encode()
    if len(name) > 127:
        raise ValueError(f"service must be a name of at most 127 bytes, got {len(name)}")
    return b"\x0a" + bytes([len(name)]) + name if name else b""


def _unpack_response(message: bytes) -> str:
    """Field 1, an enum; absent where it is 0."""
    status = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return _STATUS_NAMES[status] if status < len(_STATUS_NAMES) else str(status)
