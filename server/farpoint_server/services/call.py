"""Calls: what requests of different messages have in common on their way through the pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from farpoint.v1.tensor_pb2 import DATA_TYPE_FLOAT32
from farpoint_server.codec.coordinates import DecodedSampleRequest, decode_sample_request
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.sample_response import response_bytes
from farpoint_server.codec.tensors import TensorView
from farpoint_server.compute.arrays import Int64s
from farpoint_server.compute.work import Outcome, Work
from farpoint_server.kinds.method import method_bytes
from farpoint_server.kinds.model import Outputs
from farpoint_server.kinds.sample import Samples, sample_bytes
from farpoint_server.request_context import Fields

# Less is decoded or serialized on the event loop, 0.12 ms for a megabyte: the way to another thread
# costs more CPU, and gRPC itself copies every message there.
INLINE_BYTES = 3 << 20
# Aligned float32 is only looked at, for NaN and infinity: a megabyte takes 25 us, and float64 120.
INLINE_FLOAT32_BYTES = 1 << 23
# The cost of a radius is computed from every point: a quarter of a millisecond for these.
INLINE_RADIUS_POINTS = 10_000

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class DecodedCall(Generic[T]):
    """A call whose values are valid, without what only its message held.

    Attributes:
        work: For a device.
        serialize: Makes the response of the outcome.
        response_bytes: Bytes of the response to an outcome, at most; None if they are not known.
        fields: Of the log line, given the outcome.
    """

    work: Work[Any]
    serialize: Callable[[Outcome[Any]], T]
    fields: Callable[[Outcome[Any]], Fields]
    response_bytes: Callable[[Outcome[Any]], int] | None = None

    def is_short(self, outcome: Outcome[Any]) -> bool:
        """Whether the response is serialized on the event loop."""
        return self.response_bytes is not None and self.response_bytes(outcome) <= INLINE_BYTES


@dataclass(eq=False, slots=True)
class Call(Generic[T]):
    """A request, parsed and valid but for its values.

    Attributes:
        lengths: Points of each cloud, (B,).
        points: Of all clouds.
        size: Bytes that it holds until it is answered.
        is_small: Whether it is decoded on the event loop.
        decode: Makes its work; raises InvalidRequestError for values that are wrong.
        least_bytes: Computes the minimum of device memory; None if only the work knows.
    """

    lengths: Int64s
    points: int
    size: int
    is_small: bool
    decode: Callable[[], DecodedCall[T]]
    least_bytes: Callable[[], int] | None = None


def model_call(
    model: str,
    lengths: Int64s,
    size: int,
    to_work: Callable[[], Work[Any]],
    to_response: Callable[[Outcome[Any]], T],
) -> Call[T]:
    """A request to a loaded model.

    Args:
        model: Its name.
        lengths: Points of each cloud, (B,).
        size: As for `Call`.
        to_work: Makes the work; raises InvalidRequestError for values that are wrong.
        to_response: Makes the response of the outcome.
    """

    def decode() -> DecodedCall[T]:
        return DecodedCall(to_work(), to_response, lambda _: {"model": model}, output_bytes)

    return Call(lengths, int(lengths.sum()), size, size <= INLINE_BYTES, decode)


def sample_call(
    request: ParsedSampleRequest,
    to_response: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
) -> Call[T]:
    """A request to sample; `to_response` makes the response of its decoded form and the outcome."""
    sent, count, shared_bytes = request.points, request.points.shape[0], request.shared_bytes
    is_float32 = type(sent) is TensorView and sent.data_type == DATA_TYPE_FLOAT32
    most_bytes = INLINE_FLOAT32_BYTES if is_float32 and sent.is_aligned else INLINE_BYTES
    return Call(
        request.lengths,
        points=count,
        size=request.message_bytes + shared_bytes,
        is_small=len(sent.data) <= most_bytes
        and shared_bytes <= INLINE_BYTES
        and (request.covering_radius is None or count <= INLINE_RADIUS_POINTS),
        decode=partial(_decode_sample, request, to_response),
        least_bytes=partial(_least_bytes, request),
    )


def raw_call(work: RawSample) -> Call[bytes | None]:
    """A request to sample that C++ reads and answers; None if it must be left to Python."""
    decoded = DecodedCall(
        work,
        work.respond,
        lambda outcome: {"samples": work.samples_of(outcome)},
        lambda _: work.response_bytes,
    )
    return Call(
        np.array([work.point_count]),
        points=work.point_count,
        size=work.message_bytes,
        is_small=True,
        decode=lambda: decoded,
        least_bytes=lambda: work.least_bytes,
    )


def output_bytes(outcome: Outcome[Outputs]) -> int:
    return sum(output.values.nbytes for output in outcome.result.values())


def _decode_sample(
    request: ParsedSampleRequest,
    to_response: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
) -> DecodedCall[T]:
    decoded = decode_sample_request(request)
    return DecodedCall(
        decoded.work,
        partial(to_response, decoded),
        lambda outcome: {"samples": len(outcome.result.rows)},
        partial(response_bytes, decoded.request),
    )


def _least_bytes(request: ParsedSampleRequest) -> int:
    """Of its longest cloud."""
    counts, lengths = request.sample_counts, request.lengths
    longest = int(lengths.argmax()) if len(lengths) > 1 else 0
    if request.method is not None:
        return method_bytes(int(lengths[longest]))
    samples = int(counts[longest if len(counts) > 1 else 0])
    return sample_bytes(int(lengths[longest]), 1, samples)
