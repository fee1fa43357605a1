"""Calls: what requests of different messages have in common on their way through the pipeline."""

from abc import ABC, abstractmethod
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


@dataclass(eq=False)
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


class Call(ABC, Generic[T]):
    """A request, parsed and valid but for its values."""

    lengths: Int64s
    """Points of each cloud, (B,)."""
    points: int
    """Of all clouds."""
    size: int
    """Bytes that it holds until it is answered."""
    is_small: bool
    """Whether it is decoded on the event loop."""
    least_bytes: int | None = None
    """Minimum device memory; None if only the work knows."""

    @abstractmethod
    def decode(self) -> DecodedCall[T]:
        """Its work; raises InvalidRequestError for values that are wrong."""


class ModelCall(Call[T]):
    """A request to a loaded model.

    Args:
        model: Its name.
        lengths: Points of each cloud, (B,).
        size: As for `Call`.
        to_work: Makes the work; raises InvalidRequestError for values that are wrong.
        to_response: Makes the response of the outcome.
    """

    def __init__(
        self,
        model: str,
        lengths: Int64s,
        size: int,
        to_work: Callable[[], Work[Any]],
        to_response: Callable[[Outcome[Any]], T],
    ) -> None:
        self._model, self._to_work, self._to_response = model, to_work, to_response
        self.lengths, self.points, self.size = lengths, int(lengths.sum()), size
        self.is_small = size <= INLINE_BYTES

    def decode(self) -> DecodedCall[T]:
        return DecodedCall(
            self._to_work(),
            self._to_response,
            fields=lambda _: {"model": self._model},
            response_bytes=output_bytes,
        )


class SampleCall(Call[T]):
    """A request to sample.

    Args:
        request: The reference to it is dropped once its data is decoded.
        to_response: Makes the response of the decoded request and the outcome.
    """

    def __init__(
        self,
        request: ParsedSampleRequest,
        to_response: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
    ) -> None:
        self._request, self._to_response = request, to_response
        tensor, shared_bytes = request.points, request.shared_bytes
        self.lengths, self.points = request.lengths, tensor.shape[0]
        self.size = request.message_bytes + shared_bytes
        is_float32 = type(tensor) is TensorView and tensor.data_type == DATA_TYPE_FLOAT32
        is_used_as_is = is_float32 and tensor.is_aligned
        self.is_small = (
            len(tensor.data) <= (INLINE_FLOAT32_BYTES if is_used_as_is else INLINE_BYTES)
            and shared_bytes <= INLINE_BYTES
            and (request.covering_radius is None or self.points <= INLINE_RADIUS_POINTS)
        )

    @property
    def least_bytes(self) -> int:  # type: ignore[override]
        """Of its longest cloud."""
        counts, lengths = self._request.sample_counts, self.lengths
        longest = int(lengths.argmax()) if len(lengths) > 1 else 0
        if self._request.method is not None:
            return method_bytes(int(lengths[longest]))
        samples = int(counts[longest if len(counts) > 1 else 0])
        return sample_bytes(int(lengths[longest]), 1, samples)

    def decode(self) -> DecodedCall[T]:
        decoded = decode_sample_request(self._request)
        return DecodedCall(
            decoded.work,
            serialize=partial(self._to_response, decoded),
            fields=_sample_fields,
            response_bytes=partial(response_bytes, decoded.request),
        )


class RawCall(Call[bytes | None]):
    """A request to sample that C++ reads and answers; None if it must be left to Python."""

    is_small = True

    def __init__(self, work: RawSample) -> None:
        self._work = work
        self.lengths, self.points = np.array([work.point_count]), work.point_count
        self.size, self.least_bytes = work.message_bytes, work.least_bytes

    def decode(self) -> DecodedCall[bytes | None]:
        work = self._work
        return DecodedCall(
            work,
            serialize=work.respond,
            fields=lambda outcome: {"samples": work.samples_of(outcome)},
            response_bytes=lambda _: work.response_bytes,
        )


def output_bytes(outcome: Outcome[Outputs]) -> int:
    return sum(output.values.nbytes for output in outcome.result.values())


def _sample_fields(outcome: Outcome[Samples]) -> Fields:
    return {"samples": len(outcome.result.rows)}
