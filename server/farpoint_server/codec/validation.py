"""Validation of the numbers in a request: its limits, and one number per cloud at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from farpoint.v1 import sampling_pb2
from farpoint_server.engine.types import Int64s
from farpoint_server.errors import InvalidRequestError

MAX_DIMENSIONS = 32
MAX_ATTRIBUTES = 256
MAX_PACKED_FIELDS = 256
# Of an attribute or a field of a packed cloud, in characters: answers and errors repeat it.
MAX_NAME = 256
# The row that is chosen first, where a request does not say.
_FIRST_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True)
class RequestLimits:
    """What one request may hold at most."""

    message_bytes: int
    points: int
    clouds: int


def read_lengths(values: Sequence[int], points: int, limits: RequestLimits) -> Int64s:
    """The points of each cloud, shape (B,); all of the `points` when no values are given."""
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


def read_sample_counts(values: Sequence[int], lengths: Int64s) -> Int64s:
    """The points to choose, shape (B,), or (1,) for all clouds; 1 to N of each."""
    counts = per_cloud(values, "sample_counts", len(lengths))
    check_range(counts, 1, lengths, "sample_counts", "the points of cloud {}")
    return counts


def read_starts(values: Sequence[int], lengths: Int64s) -> Int64s:
    """The rows to choose first, shape (B,), or (1,) for all clouds; 0 where no values are given."""
    if not values:
        return _FIRST_ROW
    starts = per_cloud(values, "start_indices", len(lengths))
    check_range(starts, 0, lengths - 1, "start_indices", "the rows of cloud {}")
    return starts


def read_covering_radius(request: sampling_pb2.SampleRequest) -> float | None:
    """Where sampling ends, if the request says.

    Raises:
        InvalidRequestError: it is negative or NaN.
    """
    if not request.HasField("covering_radius"):
        return None
    if not request.covering_radius >= 0:
        raise InvalidRequestError("covering_radius", "0 or more", request.covering_radius)
    return request.covering_radius


def per_cloud(values: Sequence[int], field: str, clouds: int) -> Int64s:
    """The values of a repeated field that holds one number for all clouds, or one per cloud."""
    if len(values) not in (1, clouds):
        expected = "1 value" if clouds == 1 else f"1 value or {clouds}, one per cloud"
        raise InvalidRequestError(field, expected, f"{len(values)} values")
    return np.fromiter(values, np.int64, len(values))


def check_range(values: Int64s, low: int, high: Int64s, field: str, meaning: str) -> None:
    """Raises InvalidRequestError for the first value outside low..high.

    Args:
        values: Shape (B,), or (1,) for all clouds; for a single cloud this is cheap.
        low: Smallest value that is right.
        high: Shape (B,): largest value that is right.
        field: Name of the repeated field.
        meaning: What `high` is; `{}` stands for the cloud.
    """
    if len(high) == 1 and low <= int(values[0]) <= int(high[0]):
        return
    wrong = (values < low) | (values > high)
    if wrong.any():
        cloud = int(wrong.argmax())
        index = cloud % len(values)
        expected = f"{low} to {high[cloud]}, {meaning.format(cloud)}"
        raise InvalidRequestError(f"{field}[{index}]", expected, values[index])
