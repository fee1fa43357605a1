"""Messages answered in C++, next to the server's Python, which can answer every one."""

import time

import pytest

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.sample_request import parse_sample_request, read_sample_message
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=1 << 20, points=5000, clouds=9)


def read(
    raw: bytes,
    budget_ns: int = 1_000_000_000,
    limits: RequestLimits = LIMITS,
    *,
    is_streamed: bool = False,
) -> RawSample | None:
    return RawSample.read(raw, limits, budget_ns, time.monotonic(), is_streamed=is_streamed)


def python_response(raw: bytes) -> bytes:
    """The SampleResponse of the server's Python; raises InvalidRequestError."""
    parsed = parse_sample_request(read_sample_message(raw, LIMITS.clouds), LIMITS)
    decoded = decode_sample_request(parsed)
    return serialize_sample_response(0.0, decoded, Outcome(decoded.work.inline(10**9), 0, 0))


def timeless(serialized: bytes) -> pb.SampleResponse:
    response = pb.SampleResponse.FromString(serialized)
    response.ClearField("timings")
    return response


def batch_responses(works: list[RawSample]) -> list[bytes | None]:
    """The SampleResponses of a batch."""
    answers = Batch(works).run_on_cpu()
    return [
        work.respond(Outcome(answer, 0, 0)) for work, answer in zip(works, answers, strict=True)
    ]


def is_answered(raw: bytes) -> bool:
    """Whether C++ answers a SampleRequest, alone and in a batch: as Python does."""
    work = read(raw)
    answer = work.inline(10**9) if work else None
    if work:
        (batched,) = batch_responses([read(raw)])
        assert (batched and timeless(batched)) == (answer and timeless(answer)), raw
    if answer is None:
        return False
    try:
        assert timeless(answer) == timeless(python_response(raw)), raw
    except InvalidRequestError as error:
        pytest.fail(f"a wrong message was answered: {error}: {raw!r}")
    assert work.samples == pb.SampleResponse.FromString(answer).lengths[0]
    return True
