"""Packed clouds: records in memory, as `sensor_msgs/PointCloud2` of ROS and Foxglove have them.

It is sent as it lies: the server finds the coordinates in it. A message of any library is taken if
it has the attributes of theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farpoint.errors import InvalidArgumentError
from farpoint.packed.fields import (
    AXES,
    FoxgloveCloudLike,
    PackedField,
    PointCloud2Like,
    check_axes,
    foxglove_fields,
    record_dtype,
    ros_fields,
)

__all__ = ["PackedCloud", "PackedField", "as_packed"]


@dataclass(frozen=True, eq=False, repr=False)
class PackedCloud:
    """N = height * width points, counted row by row, in records of `point_step` bytes.

    Raises:
        InvalidArgumentError: the numbers contradict one another; its `field` says which.
    """

    fields: Sequence[PackedField]
    """x, y and z, and any others."""
    data: Any
    """Bytes, or what has some in one piece, as arrays of numpy and of the module array. Not copied:
    it must not change before the answer to a call is there."""
    point_step: int
    """Bytes from one point to the next of its row."""
    width: int
    """Points of a row."""
    height: int = 1
    """Rows; 1 for a cloud without an order."""
    row_step: int = 0
    """Bytes from one row to the next; 0 for rows with nothing between them."""
    is_bigendian: bool = False
    _dtype: np.dtype[Any] = field(init=False)
    """Of a record."""

    @classmethod
    def from_ros(cls, message: PointCloud2Like) -> "PackedCloud":
        """The cloud of a `sensor_msgs/PointCloud2` of rclpy, rosbags or rospy, in its frame.

        Raises:
            InvalidArgumentError: a type is unknown, or the numbers contradict one another.
        """
        height = int(message.height)
        return cls(
            ros_fields(message),
            message.data,
            int(message.point_step),
            int(message.width),
            height,
            # Where there is one row, some drivers write anything.
            int(message.row_step) if height > 1 else 0,
            bool(message.is_bigendian),
        )

    @classmethod
    def from_foxglove(cls, message: FoxgloveCloudLike) -> "PackedCloud":
        """The cloud of a `foxglove.PointCloud`, in its own pose.

        Raises:
            InvalidArgumentError: a type is unknown, or the data is not whole points.
        """
        step, data = int(message.point_stride), _view(message.data)
        if step < 1 or len(data) % step:
            raise InvalidArgumentError(
                f"data must be whole points of point_stride {step}, got {len(data)} bytes",
                field="packed_cloud.data",
            )
        return cls(foxglove_fields(message), data, step, len(data) // step)

    def __post_init__(self) -> None:
        row = self.width * self.point_step
        if min(self.width, self.height, self.point_step, self.row_step) < 0:
            raise InvalidArgumentError(
                f"the sizes of a cloud must not be negative, got width {self.width}, height "
                f"{self.height}, point_step {self.point_step} and row_step {self.row_step}",
                field="packed_cloud",
            )
        if 0 < self.row_step < row:
            raise InvalidArgumentError(
                f"row_step is {self.row_step}, "
                f"expected {self.width} points of {self.point_step} bytes or more",
                field="packed_cloud.row_step",
            )
        # The class is frozen.
        vars(self).update(
            fields=tuple(self.fields),
            data=_view(self.data),
            row_step=self.row_step or row,
            _dtype=record_dtype(self.fields, self.point_step, self.is_bigendian),
        )
        if len(self.data) < self.size:
            raise InvalidArgumentError(
                f"expected {self.size} bytes of points, got {len(self.data)}",
                field="packed_cloud.data",
            )

    def __len__(self) -> int:
        return self.width * self.height

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.fields)
        return f"PackedCloud({len(self)} points of {self.point_step} bytes: {names})"

    @property
    def size(self) -> int:
        """Bytes from the first point to the end of the last."""
        return (self.height - 1) * self.row_step + self.width * self.point_step if len(self) else 0

    @property
    def records(self) -> NDArray[Any]:
        """(N,) structured; in place where rows have nothing between them.

        Of several fields of one name the first counts; those without a name are left out.
        """
        return self._rows(self._dtype).reshape(-1)

    @property
    def points(self) -> NDArray[Any]:
        """(N, 3), copied, in the smallest dtype that holds x, y and z.

        Raises:
            InvalidArgumentError: one of them is missing, or not one number per point.
        """
        check_axes(self.fields)
        rows = self._rows(self._dtype)
        return np.stack([rows[axis].reshape(-1) for axis in AXES], axis=1)

    @property
    def attributes(self) -> dict[str, NDArray[Any]]:
        """The other fields by name, N rows each, copied, in the byte order of this machine."""
        rows = self._rows(self._dtype)
        columns = {name: rows[name] for name in self._dtype.names or () if name not in AXES}
        return {
            name: column.astype(column.dtype.newbyteorder("=")).reshape(-1, *column.shape[2:])
            for name, column in columns.items()
        }

    def take(self, rows: NDArray[Any]) -> "PackedCloud":
        """These points with all their bytes, in this order, in one row.

        Args:
            rows: (m,) integers, as `Sample.indices`.
        """
        places = np.divmod(rows, max(self.width, 1))
        taken = self._rows(np.dtype((np.void, self.point_step)))[places]
        step, count = self.point_step, len(taken)
        return PackedCloud(
            self.fields, taken.tobytes(), step, count, is_bigendian=self.is_bigendian
        )

    def _rows(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """(height, width), in place."""
        shape, steps = (self.height, self.width), (self.row_step, self.point_step)
        return (
            np.ndarray(shape, dtype, self.data, strides=steps)
            if len(self)
            else np.empty(shape, dtype)
        )


def _view(data: Any) -> memoryview:
    """The bytes of `data`, in place where it has some."""
    try:
        view = memoryview(bytes(data) if isinstance(data, (list, tuple)) else data)
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"data must be bytes in one piece, got {type(data).__name__}: {error}",
            field="packed_cloud.data",
        ) from error


def as_packed(value: object) -> PackedCloud | None:
    """A packed cloud, or a message of ROS or Foxglove as one; None for anything else."""
    if isinstance(value, PackedCloud):
        return value
    if not (hasattr(value, "fields") and hasattr(value, "data")):
        return None
    if hasattr(value, "point_step"):
        return PackedCloud.from_ros(value)  # type: ignore[arg-type]
    return PackedCloud.from_foxglove(value) if hasattr(value, "point_stride") else None
