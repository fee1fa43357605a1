"""Packed clouds: records in memory, as `sensor_msgs/PointCloud2` of ROS and Foxglove have them.

Their bytes are sent as they are, and the server finds the coordinates in them. A message of any
library is accepted if it has the attributes of such a message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from farpoint._dtypes import TYPES
from farpoint.errors import InvalidArgumentError

AXES = ("x", "y", "z")
_ROS = {kind.ros: kind.numpy for kind in TYPES if kind.ros}
_FOXGLOVE = {kind.foxglove: kind.numpy for kind in TYPES if kind.foxglove}


class PointCloud2Like(Protocol):
    """Has the attributes of a `sensor_msgs/PointCloud2`."""

    height: Any
    width: Any
    fields: Any
    """Each with name, offset, datatype and count."""
    is_bigendian: Any
    point_step: Any
    row_step: Any
    data: Any


class FoxgloveCloudLike(Protocol):
    """Has the attributes of a `foxglove.PointCloud`."""

    point_stride: Any
    fields: Any
    """Each with name, offset and type."""
    data: Any


@dataclass(frozen=True)
class PackedField:
    """Numbers of one type in each record."""

    name: str
    offset: int
    """Bytes from the beginning of the record."""
    dtype: DTypeLike
    """Its byte order is that of the cloud."""
    count: int = 1
    """Number of elements; 0 means 1."""


@dataclass(frozen=True, eq=False, repr=False)
class PackedCloud:
    """N = height * width points, counted row by row, in records of `point_step` bytes.

    Raises:
        InvalidArgumentError: the numbers contradict one another; its `field` says which.
    """

    fields: Sequence[PackedField]
    """x, y and z, and any others."""
    data: Any
    """Bytes, or an object with a contiguous buffer, such as a numpy array. It is not copied: do not
    change it before a call has returned."""
    point_step: int
    """Bytes from one point to the next of its row."""
    width: int
    """Points of a row."""
    height: int = 1
    """Rows; 1 for a cloud without an order."""
    row_step: int = 0
    """Bytes from one row to the next; 0 for rows without gaps."""
    is_bigendian: bool = False
    _dtype: np.dtype[Any] = field(init=False)
    """Type of a record."""

    @classmethod
    def from_ros(cls, message: PointCloud2Like) -> "PackedCloud":
        """The cloud of a `sensor_msgs/PointCloud2` of rclpy, rosbags or rospy, in its frame.

        Raises:
            InvalidArgumentError: a type is unknown, or the numbers contradict one another.
        """
        height = int(message.height)
        return cls(
            [
                PackedField(f.name, int(f.offset), _dtype(f.name, f.datatype, _ROS), int(f.count))
                for f in message.fields
            ],
            message.data,
            int(message.point_step),
            int(message.width),
            height,
            # For a single row some drivers write any number.
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
        fields = [
            PackedField(f.name, int(f.offset), _dtype(f.name, f.type, _FOXGLOVE))
            for f in message.fields
        ]
        return cls(fields, data, step, len(data) // step)

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
        """(N,) structured; in place where rows have no gaps.

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
    """The bytes of `data`, in place if it has a buffer."""
    try:
        view = memoryview(bytes(data) if isinstance(data, (list, tuple)) else data)
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"data must be contiguous bytes, got {type(data).__name__}: {error}",
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


def _dtype(name: str, code: Any, types: Mapping[int, str]) -> str:
    if int(code) not in types:
        raise InvalidArgumentError(
            f"the field {name} has type {int(code)}, expected 1 to {max(types)}",
            field="packed_cloud.fields",
        )
    return types[int(code)]


def record_dtype(fields: Sequence[PackedField], step: int, is_bigendian: bool) -> np.dtype[Any]:
    """One record: of several fields of a name the first, and none without a name.

    Raises:
        InvalidArgumentError: a field is not within a record.
    """
    named: dict[str, PackedField] = {}
    for i, entry in enumerate(fields):
        end = entry.offset + np.dtype(entry.dtype).itemsize * max(entry.count, 1)
        if entry.offset < 0 or end > step:
            raise InvalidArgumentError(
                f"the fields do not fit in a point of {step} bytes: "
                f"{entry.name} is in bytes {entry.offset} to {end - 1}",
                field=f"packed_cloud.fields[{i}].offset",
            )
        if entry.name:
            named.setdefault(entry.name, entry)
    types = [
        np.dtype(entry.dtype).newbyteorder(">" if is_bigendian else "<") for entry in named.values()
    ]
    counted = zip(types, named.values(), strict=True)
    layout = {
        "names": list(named),
        "formats": [(kind, (f.count,)) if f.count > 1 else kind for kind, f in counted],
        "offsets": [entry.offset for entry in named.values()],
        "itemsize": step,
    }
    return np.dtype(layout)  # type: ignore[call-overload, no-any-return]


def check_axes(fields: Sequence[PackedField]) -> None:
    """Raises InvalidArgumentError unless x, y and z are one number each."""
    names = [entry.name for entry in fields]
    if any(names.count(axis) != 1 for axis in AXES):
        raise InvalidArgumentError(
            f"the fields of a cloud must have x, y and z once each, got {', '.join(names)}",
            field="packed_cloud.fields",
        )
    for i, entry in enumerate(fields):
        if entry.name in AXES and (entry.count > 1 or np.dtype(entry.dtype).kind not in "fiu"):
            raise InvalidArgumentError(
                f"the field {entry.name} must be one number per point, "
                f"got {max(entry.count, 1)} of {np.dtype(entry.dtype)}",
                field=f"packed_cloud.fields[{i}]",
            )
