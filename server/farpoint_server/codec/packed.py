"""farpoint.v1.PackedCloud messages: bounded, and read in place through strides."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farpoint.v1 import packed_cloud_pb2, tensor_pb2
from farpoint_server.codec.dtypes import ELEMENT_TYPES, POINT_TYPES, DataType, widened
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import MAX_PACKED_FIELDS, RequestLimits, type_name
from farpoint_server.codec.wire import Buffer, tensor_chunks
from farpoint_server.compute.arrays import Int32s
from farpoint_server.errors import InvalidRequestError, quoted

PACKED = "packed_cloud"
AXES = ("x", "y", "z")
_FLOAT32, _FLOAT64 = tensor_pb2.DATA_TYPE_FLOAT32, tensor_pb2.DATA_TYPE_FLOAT64


class Axis(NamedTuple):
    """Offset and type of one coordinate in a record."""

    data_type: int
    offset: int
    dtype: np.dtype[Any]
    """With the byte order of the cloud; bfloat16 as its bits."""


class Layout(NamedTuple):
    """A validated description; its fields lie within `size` bytes."""

    data_type: DataType
    """Of the points as a tensor."""
    axes: tuple[Axis, Axis, Axis]
    width: int
    height: int
    point_step: int
    row_step: int

    @property
    def points(self) -> int:
        """Number of points, finite or not."""
        return self.width * self.height

    @property
    def size(self) -> int:
        """Bytes from the first point to the end of the last."""
        return (self.height - 1) * self.row_step + self.width * self.point_step


def parse_layout(cloud: packed_cloud_pb2.PackedCloud, limits: RequestLimits) -> Layout:
    """The description of a packed cloud without its data; raises InvalidRequestError."""
    width, height, step = cloud.width, cloud.height, cloud.point_step
    # In this order: no number is multiplied before it is known to be small.
    _check_number("width", width, 1, limits.points, "the points that a request may have")
    _check_number("height", height, 1, limits.points // width, f"rows of {width} points")
    if not step:
        raise InvalidRequestError(f"{PACKED}.point_step", "1 or more bytes", step)
    row = width * step
    if cloud.row_step and cloud.row_step < row:
        expected = f"{row} or more, {width} points of {step} bytes"
        raise InvalidRequestError(f"{PACKED}.row_step", expected, cloud.row_step)
    # The row_step of a single row has no meaning.
    row_step = cloud.row_step if cloud.row_step and height > 1 else row
    axes = _parse_fields(cloud)
    return Layout(_point_type(axes), axes, width, height, step, row_step)


def _check_number(name: str, value: int, low: int, high: int, meaning: str) -> None:
    if not low <= value <= high:
        raise InvalidRequestError(f"{PACKED}.{name}", f"{low} to {high}, {meaning}", value)


def _parse_fields(cloud: packed_cloud_pb2.PackedCloud) -> tuple[Axis, Axis, Axis]:
    """The coordinates among the fields; others are not looked at."""
    if len(cloud.fields) > MAX_PACKED_FIELDS:
        raise InvalidRequestError(
            f"{PACKED}.fields", f"at most {MAX_PACKED_FIELDS}", len(cloud.fields)
        )
    names = [field.name for field in cloud.fields]
    if any(names.count(axis) != 1 for axis in AXES):
        given = quoted(", ".join(names)) if names else "none"
        raise InvalidRequestError(f"{PACKED}.fields", "x, y and z once each", given)
    x, y, z = (_axis(cloud, names.index(axis)) for axis in AXES)
    return x, y, z


def _axis(cloud: packed_cloud_pb2.PackedCloud, place: int) -> Axis:
    field, path = cloud.fields[place], f"{PACKED}.fields[{place}]"
    element = ELEMENT_TYPES.get(field.data_type)
    if element is None or element.kind == "b":
        expected = "a type of numbers for a coordinate"
        raise InvalidRequestError(f"{path}.data_type", expected, type_name(field.data_type))
    if field.count > 1:
        raise InvalidRequestError(f"{path}.count", "1 number for a coordinate", field.count)
    if field.offset + element.itemsize > cloud.point_step:
        expected = f"{element.itemsize} bytes within the point_step of {cloud.point_step} bytes"
        raise InvalidRequestError(f"{path}.offset", expected, f"an offset of {field.offset}")
    dtype = element.newbyteorder(">" if cloud.is_bigendian else "<")
    return Axis(field.data_type, field.offset, dtype)


def _point_type(axes: tuple[Axis, Axis, Axis]) -> DataType:
    """One type that holds every value of the three, or FLOAT64."""
    types = {axis.data_type for axis in axes}
    if len(types) == 1 and types < set(POINT_TYPES):
        return POINT_TYPES[POINT_TYPES.index(axes[0].data_type)]
    fits = all(axis.dtype.itemsize <= 2 or axis.data_type == _FLOAT32 for axis in axes)
    return _FLOAT32 if fits else _FLOAT64


# Integers up to here are exact in float64.
_LARGEST_EXACT = 1 << 53


class PackedView(NamedTuple):
    """A packed cloud over the received bytes, with the interface of a `TensorView`."""

    layout: Layout
    data: Buffer
    is_shared: bool = False
    """Whether the caller may change the data meanwhile."""

    @property
    def is_aligned(self) -> bool:
        """True: `array` aligns columns."""
        return True

    @property
    def field(self) -> str:
        """Path in the request."""
        return PACKED

    @property
    def shape(self) -> tuple[int, ...]:
        """(P, 3)."""
        return (self.layout.points, 3)

    def owned(self) -> "PackedView":
        """The same, not shared, so that it cannot change after the checks."""
        if not self.is_shared:
            return self
        return PackedView(self.layout, np.frombuffer(self.data, np.uint8).copy().data)

    def array(self) -> npt.NDArray[Any]:
        """The coordinates (P, 3) in float32, or float64 if necessary."""
        layout = self.layout
        dtype = np.float64 if layout.data_type == _FLOAT64 else np.float32
        points = np.empty((layout.height, layout.width, 3), dtype)
        for i, (axis, column) in enumerate(self._columns()):
            if column.dtype.kind in "iu" and column.dtype.itemsize == 8:
                _check_exact(column)
            points[..., i] = _aligned(widened(column, axis.data_type))
        return points.reshape(-1, 3)

    def take(self, rows: Int32s, checksum: bool = False) -> list[Buffer]:
        """The Tensor of some points, shape (S, 3)."""
        data_type = self.layout.data_type
        places = np.divmod(rows, self.layout.width)
        taken = np.empty((len(rows), 3), ELEMENT_TYPES[data_type])
        for i, (axis, column) in enumerate(self._columns()):
            chosen = column[places]
            taken[:, i] = chosen if axis.data_type == data_type else widened(chosen, axis.data_type)
        return tensor_chunks(
            data_type, taken.shape, taken.reshape(-1).view(np.uint8).data, checksum
        )

    def _columns(self) -> Iterator[tuple[Axis, npt.NDArray[Any]]]:
        """x, y and z, each (height, width), read in place."""
        layout = self.layout
        shape, steps = (layout.height, layout.width), (layout.row_step, layout.point_step)
        for axis in layout.axes:
            yield axis, np.ndarray(shape, axis.dtype, self.data, axis.offset, steps)


def _aligned(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column that is aligned, copied if necessary: numpy reads others three times as slowly."""
    if column.flags.aligned:
        return column
    blocks = column.view(np.dtype((np.void, column.dtype.itemsize)))
    return np.ascontiguousarray(blocks).view(column.dtype)


def _check_exact(column: npt.NDArray[Any]) -> None:
    low, high = int(column.min()), int(column.max())
    if low < -_LARGEST_EXACT or high > _LARGEST_EXACT:
        expected = "integers within ±2^53, where FLOAT64 is exact"
        raise InvalidRequestError(f"{PACKED}.data", expected, f"{low} to {high}")


def parse_packed(
    cloud: packed_cloud_pb2.PackedCloud,
    limits: RequestLimits,
    data: Buffer | None = None,
    regions: Regions | None = None,
) -> PackedView:
    """A PackedCloud whose description and data agree.

    Args:
        data: Instead of `cloud.data`, if that was cut out.
        regions: Shared memory that it may refer to instead of having data.
    """
    data = cloud.data if data is None else data
    layout = parse_layout(cloud, limits)
    arrived = len(data)
    if cloud.HasField("shared_memory"):
        if regions is None or arrived:
            expected = "nothing but data" if arrived else "data itself in this call"
            raise InvalidRequestError(f"{PACKED}.shared_memory", expected, "a range")
        found = regions.find(cloud.shared_memory, layout.size, PACKED)
        return PackedView(layout, found, is_shared=True)
    if cloud.row_step > arrived:
        expected = f"at most the {arrived} bytes of data"
        raise InvalidRequestError(f"{PACKED}.row_step", expected, cloud.row_step)
    if layout.size > arrived:
        expected = (
            f"{layout.size} bytes or more for rows of {layout.width} points, height "
            f"{layout.height}, row_step {layout.row_step} and point_step {layout.point_step}"
        )
        raise InvalidRequestError(f"{PACKED}.data", expected, f"{arrived} bytes")
    return PackedView(layout, data)
