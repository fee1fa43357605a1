"""gRPC statuses that a soak tells apart: interruptions, refusals, answers within a stream."""

import grpc
from google.rpc import error_details_pb2, status_pb2

from benchmarks.soak.samples import SampleCase
from farpoint.v1 import sampling_pb2 as pb

# What a call may end with when the server ends or begins.
INTERRUPTIONS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
# What grpc.aio makes of the status of a call that ends while it sends (grpc/grpc#36066).
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


def judge_streamed(
    answer: pb.SampleStreamResponse, case: SampleCase, expected: int
) -> tuple[str, str]:
    """The outcome of one request of a stream whose index is `expected`, and what is wrong."""
    if answer.HasField("error"):
        if answer.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]:
            return "refused", ""
        return "wrong", f"status {answer.error.code}: {answer.error.message}"
    if answer.request_index != expected:
        return "wrong", f"request {answer.request_index} where {expected} was due"
    if not case.is_right(answer.response):
        return "wrong", f"request {expected} of a stream"
    return "answered", ""
