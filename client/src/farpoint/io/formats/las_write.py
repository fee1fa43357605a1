"""LAS 1.4 of a cloud that comes from another format."""

from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud
from farpoint.io.files import require
from farpoint.io.records import columns_of

PLAIN_FORMAT, COLOR_FORMAT = 6, 7
COLORS = ("red", "green", "blue")
# Finer than any survey, and coarse enough that extents of two kilometers fit in 32 bits.
FINEST_SCALE_EXPONENT = -6
LONGEST_NAME = 32


def write(path: Path, cloud: Cloud) -> None:
    """Writes coordinates, the attributes that LAS knows as such, all others as extra bytes.

    The scale of each axis is the finest power of ten, down to a millionth, at which the extent
    fits in 31 bits; the offset is the whole number below the lowest coordinate.
    """
    laspy = require("laspy", "LAS", "las")
    points = np.asarray(cloud.points, np.float64)
    if not np.isfinite(points).all():
        raise ValueError("LAS holds finite coordinates only: sample with --nonfinite ignore")
    columns = {k: v for k, v in columns_of(points, cloud.attributes).items() if k not in "xyz"}
    colored = set(COLORS) <= set(columns)
    header = laspy.LasHeader(version="1.4", point_format=COLOR_FORMAT if colored else PLAIN_FORMAT)
    header.offsets = np.floor(points.min(axis=0))
    header.scales = _scales(points - header.offsets)
    if cloud.crs:
        header.vlrs.append(laspy.vlrs.known.WktCoordinateSystemVlr(cloud.crs))
    header.global_encoding.wkt = True  # what these formats ask for
    known, extra = _split(columns, header)
    header.add_extra_dims(
        [laspy.ExtraBytesParams(name, column.dtype) for name, column in extra.items()]
    )
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    for name, column in {**known, **extra}.items():
        las[name] = column
    las.write(str(path))


def _scales(above_zero: Array) -> Array:
    """Powers of ten."""
    extents = np.maximum(above_zero.max(axis=0), 1e-9)
    exponents = np.ceil(np.log10(extents / (2**31 - 1)))
    return np.array([float(f"1e{max(int(e), FINEST_SCALE_EXPONENT)}") for e in exponents])


def _split(columns: dict[str, Array], header: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """Columns for dimensions of LAS, and those that become extra bytes."""
    limits = {d.name: (d.min, d.max) for d in header.point_format.standard_dimensions}
    known, extra = {}, {}
    for name, column in columns.items():
        if name in COLORS and set(COLORS) <= set(columns):
            known[name] = _as_uint16(column)
        elif name in limits and name not in ("X", "Y", "Z") and _fits(column, *limits[name]):
            known[name] = column
        else:
            new = name if name not in limits else f"{name}_value"
            extra[new.encode()[:LONGEST_NAME].decode("utf-8", "ignore")] = _storable(name, column)
    return known, extra


def _fits(column: Array, low: Any, high: Any) -> bool:
    """Whether nothing is lost: floats in an integer dimension must be whole."""
    if column.dtype.kind not in "iufb" or not len(column):
        return column.dtype.kind in "iufb"
    if isinstance(high, float):  # gps_time is float64
        return True
    whole = column.dtype.kind != "f" or bool((column == np.floor(column)).all())
    return whole and bool(column.min() >= low) and bool(column.max() <= high)


def _as_uint16(column: Array) -> Array:
    """Colors of LAS go to 65535, of bytes to 255 and of fractions to 1."""
    if column.dtype.kind != "f":
        factor = 257 if column.dtype.itemsize == 1 else 1
        return np.asarray(column.astype(np.uint16) * np.uint16(factor))
    highest = float(column.max(initial=0))
    factor = 65535 if highest <= 1 else 257 if highest <= 255 else 1
    return np.asarray(np.clip(np.rint(column * factor), 0, 65535), np.uint16)


def _storable(name: str, column: Array) -> Array:
    if column.dtype.kind == "b" or column.dtype == np.float16:
        return column.astype(np.uint8 if column.dtype.kind == "b" else np.float32)
    if column.dtype.kind not in "iuf":
        raise ValueError(
            f"the attribute {name!r} of type {column.dtype} has no place in this format"
        )
    return column
