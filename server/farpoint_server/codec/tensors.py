"""farpoint.v1.Tensor messages as numpy arrays: data type, shape and data are validated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.dtypes import ELEMENT_TYPES, POINT_TYPES, DataType
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.wire import Buffer, tensor_chunks
from farpoint_server.compute.arrays import Int32s, Int64s
from farpoint_server.errors import InvalidRequestError

# Of a request.
MAX_CLOUDS = 1 << 16
MAX_DIMENSIONS = 32
MAX_ATTRIBUTES = 256
MAX_PACKED_FIELDS = 256
# Of an attribute, in characters: answers and errors repeat it.
MAX_NAME = 256
# The row that is chosen first, where a request does not say.
_FIRST_ROW = np.zeros(1, np.int64)
_TYPE_NAMES: dict[int, str] = {number: name for name, number in tensor_pb2.DataType.items()}


@dataclass(frozen=True)
class RequestLimits:
    """Bounds of one request."""

    message_bytes: int
    points: int
    clouds: int


def check_message_size(size: int, limits: RequestLimits) -> None:
    """Raises InvalidRequestError for a message of more bytes than the limit."""
    if size > limits.message_bytes:
        expected = f"a message of at most {limits.message_bytes} bytes"
        raise InvalidRequestError("request", expected, f"{size} bytes")


def type_name(number: int) -> str:
    """Name of a DataType for an error; its number if the contract does not have it."""
    return _TYPE_NAMES.get(number, str(number))


def check_type(tensor: tensor_pb2.Tensor, types: Sequence[int], field: str) -> None:
    """Raises InvalidRequestError unless a tensor has one of these types."""
    if tensor.data_type not in types:
        expected = f"one of {', '.join(map(type_name, types))}"
        raise InvalidRequestError(f"{field}.data_type", expected, type_name(tensor.data_type))


class TensorView(NamedTuple):
    """A validated tensor over the received bytes."""

    data_type: DataType
    shape: tuple[int, ...]
    data: Buffer
    is_shared: bool = False
    """Whether the caller may change the data meanwhile."""
    field: str = "points"
    """Path in the request."""
    is_aligned: bool = True
    """Whether no element lies across its natural boundary, which the kernels need."""

    @classmethod
    def of(
        cls, data_type: DataType, shape: tuple[int, ...], data: Buffer, field: str = "points"
    ) -> "TensorView":
        """A tensor of received bytes, as many as its shape takes."""
        # An object's own bytes begin at a boundary of every type.
        is_aligned = (
            isinstance(data, bytes)
            or not len(data)
            or bool(np.frombuffer(data, ELEMENT_TYPES[data_type]).flags.aligned)
        )
        return cls(data_type, shape, data, field=field, is_aligned=is_aligned)

    def owned(self) -> "TensorView":
        """The same, aligned and not shared, so that it cannot change after the checks.

        The kernels lay out their memory by the values that they read, and read them again. Large
        data is copied without the interpreter's lock.
        """
        if not self.is_shared and self.is_aligned:
            return self
        copied = np.frombuffer(self.data, np.uint8).copy()
        return self._replace(data=copied.data, is_shared=False, is_aligned=True)

    def array(self) -> npt.NDArray[Any]:
        """The elements in their shape, read-only and without a copy."""
        return np.frombuffer(self.data, ELEMENT_TYPES[self.data_type]).reshape(self.shape)

    def take(self, rows: Int32s, checksum: bool = False) -> list[Buffer]:
        """The Tensor of some rows in the type that was sent, copied as bytes."""
        count, *rest = self.shape
        taken = np.frombuffer(self.data, np.uint8).reshape(count, -1).take(rows, axis=0)
        return tensor_chunks(self.data_type, [len(rows), *rest], taken.reshape(-1).data, checksum)


def parse_tensor(
    tensor: tensor_pb2.Tensor,
    field: str,
    data: Buffer | None = None,
    regions: Regions | None = None,
) -> TensorView:
    """A Tensor message whose type, shape and data agree.

    Args:
        field: Its path in the request.
        data: Instead of `tensor.data`, if that was cut out.
        regions: Shared memory that it may refer to instead of having data.
    """
    data = tensor.data if data is None else data
    data_type, shape, size = parse_head(tensor, field)
    arrived = len(data)
    if tensor.HasField("shared_memory"):
        if regions is None or arrived:
            expected = "nothing but data" if arrived else "data itself in this call"
            raise InvalidRequestError(f"{field}.shared_memory", expected, "a range")
        found = regions.find(tensor.shared_memory, size, field)
        return TensorView(data_type, shape, found, is_shared=True)
    if arrived != size:
        expected = f"{size} bytes for {shape} of {type_name(data_type)}"
        raise InvalidRequestError(f"{field}.data", expected, f"{arrived} bytes")
    return TensorView.of(data_type, shape, data)


def check_shape(sizes: Sequence[int], field: str) -> tuple[int, ...]:
    """The shape of a tensor; raises InvalidRequestError for many dimensions or a negative size."""
    # Checked first: a product of many sizes takes seconds.
    if len(sizes) > MAX_DIMENSIONS:
        expected = f"at most {MAX_DIMENSIONS} dimensions"
        raise InvalidRequestError(f"{field}.shape", expected, len(sizes))
    shape = tuple(sizes)
    if shape and min(shape) < 0:
        raise InvalidRequestError(f"{field}.shape", "no negative size", shape)
    return shape


def check_points(points: tensor_pb2.Tensor, limits: RequestLimits) -> None:
    """Checks the type and the shape of the points; raises InvalidRequestError."""
    check_type(points, POINT_TYPES, "points")
    shape = points.shape
    if len(shape) != 2 or shape[1] != 3:
        raise InvalidRequestError("points.shape", "(P, 3)", tuple(shape[:MAX_DIMENSIONS]))
    if not 1 <= shape[0] <= limits.points:
        raise InvalidRequestError("points.shape", f"1 to {limits.points} points", tuple(shape))


def parse_head(tensor: tensor_pb2.Tensor, field: str) -> tuple[DataType, tuple[int, ...], int]:
    """Type and shape of a tensor, and the bytes of its elements; raises InvalidRequestError."""
    data_type = tensor.data_type
    element = ELEMENT_TYPES.get(data_type)
    if element is None:
        expected = "a DataType of the contract"
        raise InvalidRequestError(f"{field}.data_type", expected, type_name(data_type))
    shape = check_shape(tensor.shape, field)
    # Python integers: a product that overflows 64 bits must not look small.
    return data_type, shape, math.prod(shape) * element.itemsize


def read_lengths(values: Sequence[int], points: int, limits: RequestLimits) -> Int64s:
    """Points of each cloud, shape (B,); by default one cloud of all `points`."""
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
    """Numbers of samples, shape (B,), or (1,) for all clouds; 1 to N each."""
    counts = per_cloud(values, "sample_counts", len(lengths))
    check_range(counts, 1, lengths, "sample_counts", "the points of cloud {}")
    return counts


def read_starts(values: Sequence[int], lengths: Int64s) -> Int64s:
    """First rows, shape (B,), or (1,) for all clouds; 0 by default."""
    if not values:
        return _FIRST_ROW
    starts = per_cloud(values, "start_indices", len(lengths))
    check_range(starts, 0, lengths - 1, "start_indices", "the rows of cloud {}")
    return starts


def read_covering_radius(request: sampling_pb2.SampleRequest) -> float | None:
    """Stop radius of a request, if it has one; raises InvalidRequestError."""
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
        high: Shape (B,).
        meaning: Describes `high`; `{}` stands for the cloud.
    """
    if len(high) == 1 and low <= int(values[0]) <= int(high[0]):
        return
    wrong = (values < low) | (values > high)
    if wrong.any():
        cloud = int(wrong.argmax())
        index = cloud % len(values)
        expected = f"{low} to {high[cloud]}, {meaning.format(cloud)}"
        raise InvalidRequestError(f"{field}[{index}]", expected, values[index])
