"""Point cloud messages of robots: from a recording, and made from arrays."""

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.clouds import cloud_file

RECORDING = "os1_two_scans_part.mcap"
# Codes of sensor_msgs/PointField and of foxglove.PackedElementField.
ROS_CODES = {
    **{"int8": 1, "uint8": 2, "int16": 3, "uint16": 4, "int32": 5, "uint32": 6},
    **{"float32": 7, "float64": 8, "int64": 9, "uint64": 10, "bool": 11},
}
FOXGLOVE_CODES = {
    **{"uint8": 1, "int8": 2, "uint16": 3, "int16": 4, "uint32": 5, "int32": 6},
    **{"float32": 7, "float64": 8},
}


@lru_cache
def recorded_messages() -> list[Any]:
    """The two `sensor_msgs/PointCloud2` of RECORDING, of the classes of rosbags."""
    highlevel = pytest.importorskip("rosbags.highlevel")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    with highlevel.AnyReader([cloud_file(RECORDING)], default_typestore=store) as reader:
        return [reader.deserialize(data, c.msgtype) for c, _, data in reader.messages()]


def ros_message(
    columns: dict[str, np.ndarray], *, height: int = 1, order: str = "<", gap: int = 0
) -> SimpleNamespace:
    """A PointCloud2 of columns (N,) or (N, count), with holes, and bytes behind each row."""
    offsets, formats, at = [], [], 3
    for values in columns.values():
        offsets.append(at)
        formats.append((values.dtype.newbyteorder(order), values.shape[1:]))
        at += values.dtype.itemsize * int(np.prod(values.shape[1:])) + 1
    layout = {"names": list(columns), "formats": formats, "offsets": offsets, "itemsize": at}
    width = len(next(iter(columns.values()))) // height
    data = np.full((height, width * at + gap), 0xFF, np.uint8)
    records = np.ndarray((height, width), np.dtype(layout), data, strides=(data.shape[1], at))
    fields = []
    for (name, values), offset in zip(columns.items(), offsets, strict=True):
        records[name] = values.reshape(height, width, *values.shape[1:])
        code, count = ROS_CODES[values.dtype.name], int(np.prod(values.shape[1:]))
        fields.append(SimpleNamespace(name=name, offset=offset, datatype=code, count=count))
    return SimpleNamespace(
        height=height,
        width=width,
        fields=fields,
        is_bigendian=order == ">",
        point_step=at,
        row_step=data.shape[1],
        data=data.reshape(-1),
    )


def foxglove_message(columns: dict[str, np.ndarray]) -> SimpleNamespace:
    """A foxglove.PointCloud of columns (N,)."""
    message = ros_message(columns)
    names = {code: name for name, code in ROS_CODES.items()}
    fields = [
        SimpleNamespace(name=f.name, offset=f.offset, type=FOXGLOVE_CODES[names[f.datatype]])
        for f in message.fields
    ]
    data = message.data.tobytes()
    return SimpleNamespace(point_stride=message.point_step, fields=fields, data=data)


def columns_of(points: np.ndarray, **others: np.ndarray) -> dict[str, np.ndarray]:
    """x, y and z of an array (N, 3), and others."""
    return dict(zip("xyz", np.ascontiguousarray(points.T), strict=True)) | others
