"""The table of number types: numpy's names, and the names and codes of each wire format."""

from typing import NamedTuple


class NumberType(NamedTuple):
    """A type of numbers; None where a format does not have it.

    Attributes:
        farpoint: the name in farpoint.v1.Tensor and in fields of a PackedCloud, after DATA_TYPE_.
        open_inference: the datatype of the Open Inference Protocol.
        ros: the number in sensor_msgs/PointField; 9 and above are ROS 2's alone.
        foxglove: the number in foxglove.PackedElementField.
    """

    numpy: str
    farpoint: str
    open_inference: str
    ros: int | None = None
    foxglove: int | None = None


TYPES = (
    NumberType("b1", "BOOL", "BOOL", 11),
    NumberType("i1", "INT8", "INT8", 1, 2),
    NumberType("u1", "UINT8", "UINT8", 2, 1),
    NumberType("i2", "INT16", "INT16", 3, 4),
    NumberType("u2", "UINT16", "UINT16", 4, 3),
    NumberType("i4", "INT32", "INT32", 5, 6),
    NumberType("u4", "UINT32", "UINT32", 6, 5),
    NumberType("i8", "INT64", "INT64", 9),
    NumberType("u8", "UINT64", "UINT64", 10),
    NumberType("f2", "FLOAT16", "FP16"),
    NumberType("f4", "FLOAT32", "FP32", 7, 7),
    NumberType("f8", "FLOAT64", "FP64", 8, 8),
)
