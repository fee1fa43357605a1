"""Messages answered in C++, next to the server's Python, which can answer every one."""

import time

import pytest

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import parse_sample_request, read_sample_message
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.small_sample import SmallSample
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=1 << 20, points=5000, clouds=9)


def read(
    raw: bytes,
    budget_ns: int = 1_000_000_000,
    limits: RequestLimits = LIMITS,
    *,
    is_streamed: bool = False,
) -> SmallSample | None:
    return SmallSample.read(raw, limits, budget_ns, time.monotonic(), is_streamed=is_streamed)


def python_response(raw: bytes) -> bytes:
    """The SampleResponse of the server's Python; raises InvalidRequestError."""
    parsed = parse_sample_request(read_sample_message(raw, LIMITS.clouds), LIMITS)
    decoded = decode_sample_request(parsed)
    return serialize_sample_response(0.0, decoded, Outcome(decoded.work.inline(10**9), 0, 0))


def timeless(serialized: bytes) -> pb.SampleResponse:
    response = pb.SampleResponse.FromString(serialized)
    response.ClearField("timings")
    return response


def is_answered(raw: bytes) -> bool:
    """Whether C++ answers a SampleRequest, which it must do as Python does."""
    work = read(raw)
    answer = work.inline(10**9) if work else None
    if answer is None:
        return False
    try:
        assert timeless(answer) == timeless(python_response(raw)), raw
    except InvalidRequestError as error:
        pytest.fail(f"a wrong message was answered: {error}: {raw!r}")
    assert work.samples == pb.SampleResponse.FromString(answer).lengths[0]
    return True
