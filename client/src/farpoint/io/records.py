"""numpy structured arrays, one record per point, from and to coordinates and attributes."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from farpoint._types import Array

AXES = ("x", "y", "z")

_HEIGHTS = ("z", "elevation", "elev", "height", "altitude", "alt", "h", "up", "u")
# Spellings of the three axes, in the order in which they are tried; the last may be any height.
_SPELLINGS = (
    ("x", "y", _HEIGHTS),
    ("easting", "northing", _HEIGHTS),
    ("east", "north", _HEIGHTS),
    ("e", "n", _HEIGHTS),
    ("points:0", "points:1", ("points:2",)),
    ("points_0", "points_1", ("points_2",)),
)
# One field with all three coordinates.
_WIDE = ("xyz", "points", "position", "positions", "coord", "coords", "coordinates")


def axis_positions(names: list[str]) -> list[int]:
    """Indices of x, y and z among the names, in any case, also as easting, northing, elevation."""
    plain = [_without_unit(name) for name in names]
    for first, second, thirds in _SPELLINGS:
        third = next((name for name in thirds if name in plain), None)
        if first in plain and second in plain and third is not None:
            return [plain.index(name) for name in (first, second, third)]
    missing = [axis for axis in AXES if axis not in plain]
    raise ValueError(f"no {', '.join(missing)} among the fields {', '.join(names)}")


def _without_unit(name: str) -> str:
    """`X [m]` and `x (us-ft)` are x."""
    return re.sub(r"\s*[\[(][^\])]*[\])]\s*$", "", name.strip().lower())


def split_records(records: Array) -> tuple[Array, dict[str, Array]]:
    """Coordinates (N, 3) of structured records, and their other fields by name."""
    names = list(records.dtype.names or ())
    wide = next((n for n in names if n.lower() in _WIDE and records[n].shape[1:] == (3,)), None)
    if wide is not None:
        return records[wide], {name: records[name] for name in names if name != wide}
    axes = [names[i] for i in axis_positions(names)]
    for axis in axes:
        if records[axis].ndim != 1 or records[axis].dtype.kind not in "fiu":
            raise ValueError(
                f"the field {axis} must hold one number per point, not {records.dtype[axis]}"
            )
    points = np.stack([records[axis] for axis in axes], axis=1)
    return points, {name: records[name] for name in names if name not in axes}


def columns_of(points: Array, attributes: Mapping[str, Array]) -> dict[str, Array]:
    """One-dimensional columns by name: x, y, z, then the attributes, split where they are wide."""
    columns = dict(zip(AXES, points.T, strict=True))
    for name, values in attributes.items():
        flat = values.reshape(len(values), -1)
        columns |= dict(zip(_column_names(name, flat.shape[1]), flat.T, strict=True))
    return columns


def _column_names(name: str, width: int) -> list[str]:
    name = "_".join(name.split())
    if name == "rgb" and width == 3:
        return ["red", "green", "blue"]
    return [name] if width == 1 else [f"{name}_{i}" for i in range(width)]


def join_columns(columns: dict[str, Array]) -> Array:
    """Columns as structured records of little-endian numbers that PLY and PCD can hold."""
    types = [(name, _storable(name, column.dtype)) for name, column in columns.items()]
    records = np.empty(len(columns["x"]), types)
    for name, column in columns.items():
        records[name] = column
    return records


def _storable(name: str, dtype: np.dtype[np.generic]) -> str:
    if dtype.kind == "b":
        return "u1"
    if dtype.kind == "f":
        return "<f4" if dtype.itemsize <= 4 else "<f8"
    if dtype.kind in "iu":
        # PLY ends at 32 bits; float64 holds whole numbers up to 2^53.
        return f"<{dtype.kind}{dtype.itemsize}" if dtype.itemsize <= 4 else "<f8"
    raise ValueError(f"the attribute {name!r} of type {dtype} has no place in this format")


def named_columns(array: Array, names: Sequence[str]) -> tuple[Array, dict[str, Array]]:
    """Coordinates and the other columns of an array (N, columns)."""
    axes = axis_positions(list(names))
    points = array[:, :3] if axes == [0, 1, 2] else array[:, axes]
    return points, {names[i]: array[:, i] for i in range(len(names)) if i not in axes}


def unpack_color(attributes: dict[str, Array]) -> dict[str, Array]:
    """`rgb` as (N, 3) and `rgba` as (N, 4) uint8 where they hold 0xAARRGGBB as float or integer."""
    for name in {"rgb", "rgba"} & set(attributes):
        packed = attributes[name]
        if packed.dtype.itemsize == 4 and packed.ndim == 1:
            blue_first = np.ascontiguousarray(packed).view(np.uint8).reshape(-1, 4)
            attributes[name] = blue_first[:, [2, 1, 0, 3][: len(name)]]
    return attributes
