"""Columns of a cloud, one value per point, from and to coordinates and attributes."""

import math
from collections.abc import Container, Mapping, Sequence

import numpy as np

from farpoint._adapters import axis_positions
from farpoint._types import Array
from farpoint.io.numbers import EXACT, decode
from farpoint.packed import AXES

_COLORS = ("red", "green", "blue", "alpha")


def columns_of(points: Array, attributes: Mapping[str, Array]) -> dict[str, Array]:
    """One-dimensional columns by name: x, y, z, then the attributes, split where they are wide.

    A name that is taken gets a number.
    """
    columns = dict(zip(AXES, points.T, strict=True))
    for name, values in attributes.items():
        flat = values.reshape(len(values), math.prod(values.shape[1:]))
        for one, column in zip(_column_names(name, flat.shape[1]), flat.T, strict=True):
            columns[free_name(one, columns)] = column
    return columns


def _column_names(name: str, width: int) -> Sequence[str]:
    name = "_".join(name.split()) or "column"
    if name in ("rgb", "rgba") and width == len(name):
        return _COLORS[:width]
    return [name] if width == 1 else [f"{name}_{i}" for i in range(width)]


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number where it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def spelled(column: Array) -> list[str]:
    """The cells as text, numbers with the fewest digits that read back as the same number."""
    if column.dtype.kind == "S":
        return [decode(cell) for cell in column.tolist()]
    plain = column.astype(np.uint8) if column.dtype.kind == "b" else column
    words: list[str] = plain.astype(str).tolist()
    return words


def join_columns(columns: dict[str, Array], *, has_long: bool) -> tuple[Array, list[str]]:
    """Structured records of little-endian numbers, and the names of columns that have no place.

    Args:
        columns: by name, x, y and z among them.
        has_long: whether the format has integers of 64 bits; float64 holds them up to 2^53.
    """
    found = {name: _storable(column, has_long) for name, column in columns.items()}
    lost = [name for name, kind in found.items() if kind is None]
    if set(AXES) & set(lost):
        raise ValueError(f"coordinates of type {columns['x'].dtype} have no place in this format")
    types = [(name, kind) for name, kind in found.items() if kind is not None]
    records = np.empty(len(columns["x"]), types)
    for name, _ in types:
        records[name] = columns[name]
    return records, lost


def _storable(column: Array, has_long: bool) -> str | None:
    """A type of PLY and PCD that holds each value of a column; None if there is none."""
    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "b":
        return "u1"
    if kind == "f":
        stored = "<f4" if size <= 4 else "<f8"
        return stored if np.array_equal(column.astype(stored), column, equal_nan=True) else None
    if kind not in "iu":
        return None
    if size <= 4:
        return f"<{kind}{size}"
    if np.all((column <= EXACT) & (column >= -EXACT)):
        return "<f8"
    return f"<{kind}8" if has_long else None


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
