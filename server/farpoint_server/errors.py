"""Exceptions of the server, and the gRPC status of each.

A ServiceError is answered to the caller with its text; a StartError is printed without a traceback.
Any other exception is a bug: it is logged with its traceback, and the caller sees INTERNAL
without its text.
"""

import json
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

# Milliseconds after which a refused caller may try again, where the server is not merely full.
RETRY_MS = 1000
# Where it is full: about the time of a typical batch.
FULL_RETRY_MS = 250
QUOTED_CHARACTERS = 64
TEXT_CHARACTERS = 512


def quoted(text: str) -> str:
    """Quotes a caller's text for an error, truncated.

    Longer texts would fill the log, and with trailers above 8 KiB gRPC replaces the status.
    """
    if len(text) <= QUOTED_CHARACTERS:
        return repr(text)
    return f"{text[:QUOTED_CHARACTERS]!r}... of {len(text)} characters"


def shortened(text: str) -> str:
    """Truncates a text of another library or a file for an error."""
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}..."


class ServiceError(Exception):
    """A failure whose text is written for the caller."""

    def details(self) -> Sequence[Message]:
        """Messages of google.rpc that let a program react to the failure."""
        return ()


class InvalidRequestError(ServiceError):
    """A field of the request is invalid.

    Args:
        field: Path of the field in the request, for example ``attributes[0].values.shape``.
        expected: What the contract asks for.
        got: What arrived.
    """

    def __init__(self, field: str, expected: str, got: object) -> None:
        self.field = field
        self.description = f"expected {expected}, got {got}"
        super().__init__(f"{field}: {self.description}")

    def details(self) -> Sequence[Message]:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=self.field, description=self.description
        )
        return (error_details_pb2.BadRequest(field_violations=[violation]),)


class OverloadedError(ServiceError):
    """The server is full; the request was not queued."""

    def __init__(self, message: str, retry_ms: int) -> None:
        self.retry_ms = retry_ms
        super().__init__(message)

    def details(self) -> Sequence[Message]:
        delay = Duration()
        delay.FromMilliseconds(self.retry_ms)
        return (error_details_pb2.RetryInfo(retry_delay=delay),)


class TooManyCallsError(OverloadedError):
    """The caller, or all callers together, have too many open calls."""


class DeadlinePassedError(ServiceError):
    """The caller's deadline passed before the work was done."""


class CallerShareError(OverloadedError):
    """The caller has used its share of the server while others wait."""


class DeadlineTooCloseError(DeadlinePassedError):
    """The work is predicted to finish long after the caller's deadline; it was not queued."""


class DrainingError(ServiceError):
    """The server is shutting down and accepts no new requests."""


class EngineHungError(ServiceError):
    """A batch of an engine has exceeded its time limit."""


class DeviceFailedError(ServiceError):
    """A device no longer works in this process, which therefore ends."""


class TooLargeError(ServiceError):
    """The request needs more memory than the device has."""


class UnauthenticatedError(ServiceError):
    """The call has no token or an unknown one."""


class PermissionDeniedError(ServiceError):
    """The token of the call lacks the required scope."""


class NotFoundError(ServiceError):
    """The request names a model, a version or a region that the server does not have."""


class UnsupportedError(ServiceError):
    """The server does not support the call, or not at this address or with these settings."""


class StartError(Exception):
    """The server cannot start with these settings on this machine; names the setting."""


# A class without a row has the status of its base class.
STATUS: dict[type[BaseException], grpc.StatusCode] = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    OverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DeadlinePassedError: grpc.StatusCode.DEADLINE_EXCEEDED,
    DrainingError: grpc.StatusCode.UNAVAILABLE,
    EngineHungError: grpc.StatusCode.UNAVAILABLE,
    DeviceFailedError: grpc.StatusCode.UNAVAILABLE,
    TooLargeError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    UnsupportedError: grpc.StatusCode.UNIMPLEMENTED,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    Exception: grpc.StatusCode.INTERNAL,
}


_KINDS = {
    kind.__name__: kind
    for kind in globals().copy().values()
    if isinstance(kind, type) and issubclass(kind, ServiceError)
}


def code_of(error: Exception) -> grpc.StatusCode:
    """The status of an error on the wire; INTERNAL for a bug."""
    return next(STATUS[base] for base in type(error).__mro__ if base in STATUS)


def pack_error(error: BaseException) -> bytes:
    """An error for another process of this server; a bug without its text, which is logged here."""
    if not isinstance(error, ServiceError):
        return json.dumps(["", f"a bug in another process: {type(error).__name__}", {}]).encode()
    return json.dumps([type(error).__name__, str(error), vars(error)]).encode()


def unpack_error(data: bytes) -> Exception:
    """The error of another process."""
    name, text, fields = json.loads(data)
    kind: Any = _KINDS.get(name, RuntimeError)
    error: Exception = kind.__new__(kind, text)
    vars(error).update(fields)
    return error


def status_of(error: Exception, request_id: str) -> status_pb2.Status:
    """The status of an error for the caller; for a bug it only has the request id."""
    if not isinstance(error, ServiceError):
        message = f"internal error; the server logged it for request {request_id}"
        return status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=message)
    status = status_pb2.Status(code=code_of(error).value[0], message=str(error))
    for detail in error.details():
        status.details.add().Pack(detail)
    return status


def clear_tracebacks(error: BaseException | None) -> None:
    """Clears the tracebacks of a handled error, whose frames hold the request.

    gRPC keeps what `abort` raises, and a future keeps its error: reference cycles, which only the
    garbage collector frees. It counts objects, not bytes, and does not run on an idle server, so a
    refused request would stay in memory until many others have come.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
