"""Parquet tables through pyarrow, of the optional extra `io`: one row per point."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.files import require
from farpoint.io.records import axis_positions, columns_of


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
    axes = axis_positions(names)
    columns = [_coordinates(table, names[i]) for i in axes]
    others = {
        name: values
        for i, name in enumerate(names)
        if i not in axes and (values := _values(table.column(i))) is not None
    }
    return Cloud(np.stack(columns, axis=1), others, ParquetSource(table))


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
