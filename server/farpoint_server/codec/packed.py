"""farpoint.v1.PackedCloud messages as arrays: coordinates are read in place, through strides."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farpoint.v1 import packed_cloud_pb2, tensor_pb2
from farpoint_server.codec.dtypes import ELEMENT_TYPES, widened
from farpoint_server.codec.packed_layout import AXES, PACKED, Layout, parse_layout
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.codec.wire import Buffer, tensor_chunks
from farpoint_server.engine.types import Int32s
from farpoint_server.errors import InvalidRequestError

_FLOAT64, _BFLOAT16 = tensor_pb2.DATA_TYPE_FLOAT64, tensor_pb2.DATA_TYPE_BFLOAT16
# Integers up to here are exact in float64.
_LARGEST_EXACT = 1 << 53


class PackedView(NamedTuple):
    """A packed cloud over the bytes that arrived; to its users points like a `TensorView`."""

    layout: Layout
    data: Buffer
    is_shared: bool = False
    """Whether the caller may change the data meanwhile."""

    @property
    def is_aligned(self) -> bool:
        """True: columns are aligned where they are read."""
        return True

    @property
    def field(self) -> str:
        """Of a request, with these points."""
        return PACKED

    @property
    def shape(self) -> tuple[int, ...]:
        """(P, 3)."""
        return (self.layout.points, 3)

    def owned(self) -> "PackedView":
        """With the coordinates copied if they are shared: of the records nothing else is needed."""
        if not self.is_shared:
            return self
        layout = self.layout
        dtype = np.dtype([(name, axis.dtype) for name, axis in zip(AXES, layout.axes, strict=True)])
        records = np.empty((layout.height, layout.width), dtype)
        for name, column in zip(AXES, self._columns(widen=False), strict=True):
            records[name] = column
        ends = np.cumsum([axis.dtype.itemsize for axis in layout.axes]).tolist()
        x, y, z = (
            axis._replace(offset=end - axis.dtype.itemsize)
            for axis, end in zip(layout.axes, ends, strict=True)
        )
        step = dtype.itemsize
        moved = layout._replace(axes=(x, y, z), point_step=step, row_step=layout.width * step)
        return PackedView(moved, records.reshape(-1).view(np.uint8).data)

    def array(self) -> npt.NDArray[Any]:
        """The coordinates (P, 3) in float32, or float64 where they need it."""
        layout = self.layout
        dtype = np.float64 if layout.data_type == _FLOAT64 else np.float32
        points = np.empty((layout.height, layout.width, 3), dtype)
        for i, column in enumerate(self._columns()):
            if column.dtype.kind in "iu" and column.dtype.itemsize == 8:
                _check_exact(column)
            points[..., i] = _aligned(column)
        return points.reshape(-1, 3)

    def take(self, rows: Int32s, checksum: bool = False) -> list[Buffer]:
        """The Tensor of some points, shape (S, 3)."""
        data_type = self.layout.data_type
        places = np.divmod(rows, self.layout.width)
        taken = np.empty((len(rows), 3), ELEMENT_TYPES[data_type])
        for i, column in enumerate(self._columns(widen=data_type != _BFLOAT16)):
            taken[:, i] = column[places]
        return tensor_chunks(
            data_type, taken.shape, taken.reshape(-1).view(np.uint8).data, checksum
        )

    def _columns(self, widen: bool = True) -> Iterator[npt.NDArray[Any]]:
        """x, y and z, each (height, width), read in place but for bfloat16 that is widened."""
        layout = self.layout
        shape, steps = (layout.height, layout.width), (layout.row_step, layout.point_step)
        for axis in layout.axes:
            column: npt.NDArray[Any] = np.ndarray(shape, axis.dtype, self.data, axis.offset, steps)
            yield widened(column, axis.data_type) if widen else column


def _aligned(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column that numpy reads at full speed: records of 22 bytes, say, are moved as bytes first.

    Numbers across their natural boundaries take three times as long.
    """
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
        cloud: As it was sent.
        limits: How many points it may have.
        data: What stands for `cloud.data`, if that was cut out.
        regions: Where it may refer to instead of having data; None where it may not.
    """
    data = cloud.data if data is None else data
    layout = parse_layout(cloud, limits)
    arrived = len(data)
    if cloud.HasField("shared_memory"):
        if regions is None or arrived:
            expected = "nothing beside data" if arrived else "data itself in this call"
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
