"""The table of number types: numpy's names, and the codes of each wire format."""

from typing import Any, NamedTuple

import numpy as np

from farpoint.errors import InvalidArgumentError
from farpoint.v1 import tensor_pb2 as pb


class NumberType(NamedTuple):
    """A type of numbers."""

    numpy: str
    farpoint: pb.DataType.ValueType
    """Of farpoint.v1.Tensor and of the fields of a PackedCloud."""
    ros: int | None
    """Of sensor_msgs/PointField; from 9 on of ROS 2 alone."""
    foxglove: int | None
    """Of foxglove.PackedElementField."""


TYPES = (
    NumberType("b1", pb.DATA_TYPE_BOOL, 11, None),
    NumberType("i1", pb.DATA_TYPE_INT8, 1, 2),
    NumberType("u1", pb.DATA_TYPE_UINT8, 2, 1),
    NumberType("i2", pb.DATA_TYPE_INT16, 3, 4),
    NumberType("u2", pb.DATA_TYPE_UINT16, 4, 3),
    NumberType("i4", pb.DATA_TYPE_INT32, 5, 6),
    NumberType("u4", pb.DATA_TYPE_UINT32, 6, 5),
    NumberType("i8", pb.DATA_TYPE_INT64, 9, None),
    NumberType("u8", pb.DATA_TYPE_UINT64, 10, None),
    NumberType("f2", pb.DATA_TYPE_FLOAT16, None, None),
    NumberType("f4", pb.DATA_TYPE_FLOAT32, 7, 7),
    NumberType("f8", pb.DATA_TYPE_FLOAT64, 8, 8),
)
ROS = {kind.ros: kind.numpy for kind in TYPES if kind.ros}
FOXGLOVE = {kind.foxglove: kind.numpy for kind in TYPES if kind.foxglove}
_TO_WIRE = {np.dtype(kind.numpy).newbyteorder("<").str: kind.farpoint for kind in TYPES}
FROM_WIRE = {kind.farpoint: np.dtype(kind.numpy).newbyteorder("<") for kind in TYPES}


def wire_type(dtype: np.dtype[Any], field: str) -> pb.DataType.ValueType:
    """The contract's type for a dtype of any byte order; raises InvalidArgumentError."""
    data_type = _TO_WIRE.get(dtype.newbyteorder("<").str)
    if data_type is None:
        raise InvalidArgumentError(f"{dtype} cannot be sent", field=field)
    return data_type
