"""The table of number types: numpy's names, and the names and codes of each wire format."""

from typing import NamedTuple


class NumberType(NamedTuple):
    """A type of numbers; None where a format does not have it."""

    numpy: str
    farpoint: str
    """Of farpoint.v1.Tensor and of the fields of a PackedCloud: DATA_TYPE_ and this."""
    ros: int | None
    """Of sensor_msgs/PointField; from 9 on of ROS 2 alone."""
    foxglove: int | None
    """Of foxglove.PackedElementField."""


TYPES = (
    NumberType("b1", "BOOL", 11, None),
    NumberType("i1", "INT8", 1, 2),
    NumberType("u1", "UINT8", 2, 1),
    NumberType("i2", "INT16", 3, 4),
    NumberType("u2", "UINT16", 4, 3),
    NumberType("i4", "INT32", 5, 6),
    NumberType("u4", "UINT32", 6, 5),
    NumberType("i8", "INT64", 9, None),
    NumberType("u8", "UINT64", 10, None),
    NumberType("f2", "FLOAT16", None, None),
    NumberType("f4", "FLOAT32", 7, 7),
    NumberType("f8", "FLOAT64", 8, 8),
)
