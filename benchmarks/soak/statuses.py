"""gRPC statuses that a soak tells apart: interruptions by a fault, and refusals with RetryInfo."""

import grpc
from google.rpc import error_details_pb2, status_pb2

# What a call may end with when the server ends or begins.
INTERRUPTIONS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
# What grpc.aio makes of a stream whose connection ends while it sends.
BROKEN_WRITE = grpc.StatusCode.INTERNAL, "Internal error from Core"


def retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    """What a refusal says of when to try again; None if it says nothing."""
    packed = next(
        (value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"),
        b"",
    )
    info = error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Unpack(info):
            return info.retry_delay.ToMilliseconds() / 1e3
    return None
