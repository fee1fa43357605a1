"""Fields of packed clouds, also as messages of ROS and Foxglove describe them, as numpy dtypes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

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
    """Of any byte order: that of the cloud counts."""
    count: int = 1
    """Number of elements; 0 means 1."""


def ros_fields(message: PointCloud2Like) -> list[PackedField]:
    """Those of a `sensor_msgs/PointCloud2`; raises InvalidArgumentError for an unknown type."""
    return [
        PackedField(f.name, int(f.offset), _dtype(f.name, f.datatype, _ROS), int(f.count))
        for f in message.fields
    ]


def foxglove_fields(message: FoxgloveCloudLike) -> list[PackedField]:
    """Those of a `foxglove.PointCloud`; raises InvalidArgumentError for an unknown type."""
    return [
        PackedField(f.name, int(f.offset), _dtype(f.name, f.type, _FOXGLOVE))
        for f in message.fields
    ]


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
    for i, field in enumerate(fields):
        end = field.offset + np.dtype(field.dtype).itemsize * max(field.count, 1)
        if field.offset < 0 or end > step:
            raise InvalidArgumentError(
                f"the fields do not fit in a point of {step} bytes: "
                f"{field.name} is in bytes {field.offset} to {end - 1}",
                field=f"packed_cloud.fields[{i}].offset",
            )
        if field.name:
            named.setdefault(field.name, field)
    types = [
        np.dtype(field.dtype).newbyteorder(">" if is_bigendian else "<") for field in named.values()
    ]
    counted = zip(types, named.values(), strict=True)
    layout = {
        "names": list(named),
        "formats": [(kind, (f.count,)) if f.count > 1 else kind for kind, f in counted],
        "offsets": [field.offset for field in named.values()],
        "itemsize": step,
    }
    return np.dtype(layout)  # type: ignore[call-overload, no-any-return]


def check_axes(fields: Sequence[PackedField]) -> None:
    """Raises InvalidArgumentError unless x, y and z are one number each."""
    names = [field.name for field in fields]
    if any(names.count(axis) != 1 for axis in AXES):
        raise InvalidArgumentError(
            f"the fields of a cloud must have x, y and z once each, got {', '.join(names)}",
            field="packed_cloud.fields",
        )
    for i, field in enumerate(fields):
        if field.name in AXES and (field.count > 1 or np.dtype(field.dtype).kind not in "fiu"):
            raise InvalidArgumentError(
                f"the field {field.name} must be one number per point, "
                f"got {max(field.count, 1)} of {np.dtype(field.dtype)}",
                field=f"packed_cloud.fields[{i}]",
            )
