"""The cheap half of decoding a SampleRequest: everything but the coordinates' values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import MAX_DIMENSIONS, Enum, View, enum_name, view
from farpoint_server.codec.validation import check_range, per_cloud
from farpoint_server.codec.wire import SampleMessage
from farpoint_server.engine.types import Int64s
from farpoint_server.errors import InvalidRequestError

POINT_TYPES = (
    tensor_pb2.DATA_TYPE_FLOAT32,
    tensor_pb2.DATA_TYPE_FLOAT64,
    tensor_pb2.DATA_TYPE_FLOAT16,
    tensor_pb2.DATA_TYPE_BFLOAT16,
)
METHODS = (sampling_pb2.SAMPLING_METHOD_FARTHEST_POINT,)
# Read once: an enum makes them anew each time that it is asked.
_METHOD_NUMBERS = frozenset(sampling_pb2.SamplingMethod.values())
_POLICY_NUMBERS = frozenset(sampling_pb2.NonfinitePolicy.values())
_FIRST = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Limits:
    """What one request may hold at most."""

    message_bytes: int
    points: int
    clouds: int


class Plan(NamedTuple):
    """A request whose sizes and numbers are right."""

    points: View
    """Shape (P, 3), of one of POINT_TYPES."""
    attributes: tuple[tuple[str, View], ...]
    """Name and values, shape (P, ...)."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    sample_counts: Int64s
    """Shape (B,), or (1,) for all clouds; 1 to N of each."""
    starts: Int64s
    """Shape (B,), or (1,) for all clouds; 0 to N-1 of each."""
    ignore_nonfinite: bool
    return_points: bool
    return_distances: bool

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return len(self.points.data) + sum(len(values.data) for _, values in self.attributes)

    @property
    def shared_bytes(self) -> int:
        """What is still to be copied from the caller's memory."""
        shared = len(self.points.data) if self.points.is_shared else 0
        if self.attributes:
            shared += sum(len(values.data) for _, values in self.attributes if values.is_shared)
        return shared

    def owned(self) -> "Plan":
        """With everything copied that the caller could still change."""
        if not self.shared_bytes:
            return self
        attributes = tuple((name, values.owned()) for name, values in self.attributes)
        return self._replace(points=self.points.owned(), attributes=attributes)


def check_size(message: SampleMessage, limits: Limits) -> None:
    """Raises InvalidRequestError for a message above the limit; names its largest field."""
    if message.size <= limits.message_bytes:
        return
    attributes = enumerate(message.request.attributes)
    tensors = {f"attributes[{i}].values": a.values.ByteSize() for i, a in attributes}
    # All that was cut out of the message is data of its points.
    cut_out = message.size - message.request.ByteSize()
    tensors["points"] = message.request.points.ByteSize() + cut_out
    largest = max(tensors, key=lambda field: tensors[field])
    expected = f"a message of at most {limits.message_bytes} bytes"
    raise InvalidRequestError(f"{largest}.data", expected, f"{message.size} bytes")


def read_plan(message: SampleMessage, limits: Limits, regions: Regions | None = None) -> Plan:
    """Checks all that can be checked without looking at a coordinate.

    Args:
        message: The request.
        limits: What it may hold at most.
        regions: Where its tensors may refer to; None if they may not.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    request = message.request
    _check_enums(request)
    check_points(request.points, limits)
    points = view(request.points, "points", message.points_data, regions)
    lengths = read_lengths(request.lengths, points.shape[0], limits)
    counts = per_cloud(request.sample_counts, "sample_counts", len(lengths))
    check_range(counts, 1, lengths, "sample_counts", "the points of cloud {}")
    attributes = request.attributes
    return Plan(
        points=points,
        attributes=_attributes(attributes, points.shape[0], regions) if attributes else (),
        lengths=lengths,
        sample_counts=counts,
        starts=_starts(request.start_indices, lengths),
        ignore_nonfinite=request.nonfinite_policy == sampling_pb2.NONFINITE_POLICY_IGNORE,
        return_points=request.return_points,
        return_distances=request.return_distances,
    )


def _starts(values: Sequence[int], lengths: Int64s) -> Int64s:
    if not values:
        return _FIRST
    starts = per_cloud(values, "start_indices", len(lengths))
    check_range(starts, 0, lengths - 1, "start_indices", "the rows of cloud {}")
    return starts


def _check_enums(request: sampling_pb2.SampleRequest) -> None:
    method, policy = request.method, request.nonfinite_policy
    if method not in _METHOD_NUMBERS:
        raise _unknown("method", sampling_pb2.SamplingMethod, method)
    if policy not in _POLICY_NUMBERS:
        raise _unknown("nonfinite_policy", sampling_pb2.NonfinitePolicy, policy)


def _unknown(field: str, enum: Enum, value: int) -> InvalidRequestError:
    names = ", ".join(name for name, _ in enum.items())
    return InvalidRequestError(field, f"one of {names}", value)


def check_points(points: tensor_pb2.Tensor, limits: Limits) -> None:
    """Checks the type and the shape of the points; raises InvalidRequestError."""
    if points.data_type not in POINT_TYPES:
        names = ", ".join(enum_name(tensor_pb2.DataType, t) for t in POINT_TYPES)
        got = enum_name(tensor_pb2.DataType, points.data_type)
        raise InvalidRequestError("points.data_type", f"one of {names}", got)
    shape = points.shape
    if len(shape) != 2 or shape[1] != 3:
        raise InvalidRequestError("points.shape", "(P, 3)", tuple(shape[:MAX_DIMENSIONS]))
    if not 1 <= shape[0] <= limits.points:
        raise InvalidRequestError("points.shape", f"1 to {limits.points} points", tuple(shape))


def read_lengths(values: Sequence[int], points: int, limits: Limits) -> Int64s:
    """The points of each cloud; all of the `points` when no values are given."""
    if not values:
        return np.array([points])
    if len(values) > limits.clouds:
        raise InvalidRequestError("lengths", f"at most {limits.clouds} clouds", len(values))
    lengths = per_cloud(values, "lengths", len(values))
    # Each length is bounded before they are added up, so the sum cannot overflow.
    check_range(lengths, 1, np.full_like(lengths, points), "lengths", "the rows of points")
    if lengths.sum() != points:
        got = f"a sum of {lengths.sum()}"
        raise InvalidRequestError("lengths", f"a sum of {points}, the rows of points", got)
    return lengths


def _attributes(
    attributes: Sequence[tensor_pb2.Attribute], points: int, regions: Regions | None
) -> tuple[tuple[str, View], ...]:
    views: dict[str, View] = {}
    for i, attribute in enumerate(attributes):
        if not attribute.name or attribute.name in views:
            expected = "a name that no other attribute has"
            raise InvalidRequestError(f"attributes[{i}].name", expected, repr(attribute.name))
        shape = tuple(attribute.values.shape[:MAX_DIMENSIONS])
        if not shape or shape[0] != points:
            raise InvalidRequestError(f"attributes[{i}].values.shape", f"({points}, ...)", shape)
        field = f"attributes[{i}].values"
        views[attribute.name] = view(attribute.values, field, regions=regions)
    return tuple(views.items())
