"""Exceptions of the client, and the gRPC status code of each.

    FarpointError
    ├── InvalidArgumentError      also a ValueError; names the field
    ├── CloudFileError            also a ValueError; names the file
    │   └── MissingFileError        also a FileNotFoundError
    ├── UnauthenticatedError
    ├── PermissionDeniedError
    ├── NotFoundError
    ├── FailedPreconditionError
    ├── UnimplementedError
    ├── ResourceExhaustedError    says when to try again
    ├── DeadlineExceededError     also a TimeoutError
    ├── UnavailableError          also a ConnectionError
    ├── CancelledError
    └── InternalError             a bug, or a status without a class of its own
        └── DataLossError         the answer was damaged in transit

A failed call keeps gRPC's own exception as its ``__cause__``.
"""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # gRPC is loaded with the first client
    import grpc
    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.rpc import status_pb2

DETAILS_KEY = "grpc-status-details-bin"


class FarpointError(Exception):
    """Base of all exceptions of this package.

    Attributes:
        message: the failure in a sentence, without the request id.
        request_id: id of the call in the server's log; None if nothing was sent.
    """

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.message} (request {self.request_id})" if self.request_id else self.message


class InvalidArgumentError(FarpointError, ValueError):
    """An argument is invalid; a retry cannot help.

    Attributes:
        field: path of the invalid field in the request, for example ``points.shape`` or
            ``sample_counts[1]``; the name of the argument if it is not part of a request; None if
            unknown.
    """

    def __init__(
        self, message: str, *, field: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.field = field


class CloudFileError(FarpointError, ValueError):
    """A point cloud file cannot be read or written.

    Attributes:
        path: the file.
    """

    def __init__(self, message: str, *, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(message if path is None else f"{os.fspath(path)}: {message}")
        self.path = path


class MissingFileError(CloudFileError, FileNotFoundError):
    """A point cloud file, or the folder of an output, does not exist."""


class UnauthenticatedError(FarpointError):
    """The call has no valid credentials."""


class PermissionDeniedError(FarpointError):
    """The credentials do not permit the call."""


class NotFoundError(FarpointError):
    """The server does not have the model or region that the call names."""


class FailedPreconditionError(FarpointError):
    """The server or the client is not in the state that the call needs."""


class UnimplementedError(FarpointError):
    """The server does not serve this method, or not at this address."""


class ResourceExhaustedError(FarpointError):
    """The server is full, or the message is larger than it accepts.

    Attributes:
        retry_after_s: seconds after which to retry; None if the server names no time, as for a
            message that is too large.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.retry_after_s = retry_after_s


class DeadlineExceededError(FarpointError, TimeoutError):
    """No answer came within ``timeout``."""


class UnavailableError(FarpointError, ConnectionError):
    """The server cannot be reached or is shutting down; a retry may succeed."""


class CancelledError(FarpointError):
    """The call was cancelled."""


class InternalError(FarpointError):
    """The server failed, or its answer is invalid."""


class DataLossError(InternalError):
    """An answer was damaged in transit: its checksums do not match or are missing."""


_BY_STATUS: dict[str, type[FarpointError]] = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "OUT_OF_RANGE": InvalidArgumentError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "NOT_FOUND": NotFoundError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "UNIMPLEMENTED": UnimplementedError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "UNAVAILABLE": UnavailableError,
    "CANCELLED": CancelledError,
    "DATA_LOSS": DataLossError,
}


def from_rpc_error(error: "grpc.RpcError", request_id: str | None = None) -> FarpointError:
    """The exception for a failed call, synchronous or asynchronous."""
    code = error.code().name
    return _make(code, error.details() or code, _details(error.trailing_metadata()), request_id)


def from_status(status: "status_pb2.Status", request_id: str | None = None) -> FarpointError:
    """The exception for a failed request of a stream."""
    from google.rpc import code_pb2

    codes = code_pb2.Code
    code = codes.Name(status.code) if status.code in codes.values() else "UNKNOWN"
    return _make(code, status.message or code, list(status.details), request_id)


def _make(
    code: str, message: str, details: "list[AnyMessage]", request_id: str | None
) -> FarpointError:
    kind = _BY_STATUS.get(code, InternalError)
    if kind is InvalidArgumentError:
        return InvalidArgumentError(message, field=_field(details), request_id=request_id)
    if kind is ResourceExhaustedError:
        return ResourceExhaustedError(
            message, retry_after_s=_retry_after_s(details), request_id=request_id
        )
    return kind(message, request_id=request_id)


def _details(metadata: Iterable[Any] | None) -> "list[AnyMessage]":
    from google.protobuf.message import DecodeError
    from google.rpc import status_pb2

    # Iterated, as a dict of grpc.aio's Metadata fails in older versions.
    packed = next((value for key, value in metadata or () if key == DETAILS_KEY), None)
    if not isinstance(packed, bytes):
        return []
    try:
        return list(status_pb2.Status.FromString(packed).details)
    except DecodeError:  # the status alone still names the failure
        return []


def _field(details: "list[AnyMessage]") -> str | None:
    from google.rpc import error_details_pb2

    found = _detail(details, error_details_pb2.BadRequest())
    return str(found.field_violations[0].field) if found and found.field_violations else None


def _retry_after_s(details: "list[AnyMessage]") -> float | None:
    from google.rpc import error_details_pb2

    found = _detail(details, error_details_pb2.RetryInfo())
    if found is None:
        return None
    return float(max(0.0, found.retry_delay.seconds + found.retry_delay.nanos / 1e9))


def _detail(details: "list[AnyMessage]", message: Any) -> Any:
    """`message` with the content of the first detail of its type; None if there is none."""
    return message if any(detail.Unpack(message) for detail in details) else None
