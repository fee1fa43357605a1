"""Parquet tables through pyarrow, of the optional extra `io`: one row per point."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.files import require
from farpoint.io.records import axis_positions, columns_of

WKB_POINT = np.dtype([("order", "u1"), ("kind", "<u4"), ("xyz", "<f8", 3)])
WKB_POINT_CODES = (1001, 0x80000001)


@dataclass(frozen=True)
class ParquetSource:
    """The table as pyarrow holds it."""

    table: Any

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with every column and the metadata of the schema."""
        require("pyarrow.parquet", "Parquet").write_table(self.table.take(rows), str(path))


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a table: columns of numbers and text become attributes, all are kept for writing."""
    table = require("pyarrow.parquet", "Parquet").read_table(str(path))
    names = table.column_names
    if (wkb := _point_column(table)) is not None:
        others = {n: v for n in names if (v := _values(table.column(n))) is not None}
        return Cloud(_points_of_wkb(table.column(wkb)), others, ParquetSource(table))
    axes = axis_positions(names)
    columns = [_coordinates(table, names[i]) for i in axes]
    others = {
        name: values
        for i, name in enumerate(names)
        if i not in axes and (values := _values(table.column(i))) is not None
    }
    return Cloud(np.stack(columns, axis=1), others, ParquetSource(table))


def _point_column(table: Any) -> str | None:
    """The column of a GeoParquet table that holds points as WKB."""
    types = require("pyarrow.types", "Parquet")
    binary = [f.name for f in table.schema if types.is_binary(f.type)]
    return next((name for name in ("geometry", "xyz", "wkb") if name in binary), None)


def _points_of_wkb(column: Any) -> Array:
    """(N, 3) float64 of little-endian points with z, in the codes of ISO and of PostGIS."""
    cells = column.to_pylist()
    if any(cell is None or len(cell) != WKB_POINT.itemsize for cell in cells):
        raise ValueError("expected points with x, y and z in every row of the geometry")
    points = np.frombuffer(b"".join(cells), WKB_POINT)
    if not ((points["order"] == 1) & np.isin(points["kind"], WKB_POINT_CODES)).all():
        raise ValueError("expected points with x, y and z in every row of the geometry")
    return points["xyz"]


def _coordinates(table: Any, name: str) -> Array:
    column = table.column(name)
    if column.null_count:
        raise ValueError(f"the column {name} holds {column.null_count} nulls")
    values: Array = column.to_numpy()
    if values.dtype.kind not in "fiu":
        raise ValueError(f"the column {name} holds {column.type}, expected numbers")
    return values


def _values(column: Any) -> Array | None:
    """Numbers as they are, text as text; None for lists, structures and the like."""
    types = require("pyarrow.types", "Parquet")
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(["" if v is None else v for v in column.to_pylist()])
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        return np.asarray(column.to_numpy(), bool) if types.is_boolean(column.type) else None
    return np.asarray(column.to_numpy())


def write(path: Path, cloud: Cloud) -> None:
    """Writes one column per coordinate and attribute."""
    arrow = require("pyarrow", "Parquet")
    columns = columns_of(cloud.points, cloud.attributes)
    table = arrow.table({k: np.ascontiguousarray(v) for k, v in columns.items()})
    require("pyarrow.parquet", "Parquet").write_table(table, str(path))
