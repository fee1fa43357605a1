"""`sensor_msgs/PointCloud2` of ROS 1 and 2 as structured records."""

from typing import Any

import numpy as np

from farpoint._arrays import Array

# Codes of sensor_msgs/PointField.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
_TYPES |= {9: "i8", 10: "u8", 11: "b1"}


def records_of(message: Any) -> Array:
    """One record per point, row after row; a view of the message's data where rows are adjacent.

    Raises:
        ValueError: the fields or the data do not fit the sizes that the message states.
    """
    data = np.asarray(message.data, np.uint8)
    width, height = int(message.width), int(message.height)
    step, row_step = int(message.point_step), int(message.row_step)
    dtype = _dtype(message.fields, step, ">" if message.is_bigendian else "<")
    if height > 1 and row_step < width * step:
        raise ValueError(f"row_step is {row_step}, expected {width} points of {step} bytes or more")
    row = row_step if height > 1 else width * step
    needed = (height - 1) * row + width * step if width and height else 0
    if len(data) < needed:
        raise ValueError(f"expected {needed} bytes of points, got {len(data)}")
    if not needed:
        return np.empty(0, dtype)
    shape = (height, width)
    records: Array = np.ndarray(shape, dtype, np.ascontiguousarray(data), strides=(row, step))
    return records.reshape(-1)


def _dtype(fields: Any, step: int, order: str) -> np.dtype[Any]:
    for field in fields:
        if field.datatype not in _TYPES:
            raise ValueError(f"the field {field.name} has type {field.datatype}, expected 1 to 11")
    formats = [
        (order + _TYPES[f.datatype], (int(f.count),)) if f.count > 1 else order + _TYPES[f.datatype]
        for f in fields
    ]
    layout = {
        "names": [f.name for f in fields],
        "formats": formats,
        "offsets": [int(f.offset) for f in fields],
        "itemsize": step,
    }
    try:
        return np.dtype(layout)  # type: ignore[call-overload, no-any-return]
    except ValueError as error:
        raise ValueError(f"the fields do not fit in a point of {step} bytes: {error}") from error
