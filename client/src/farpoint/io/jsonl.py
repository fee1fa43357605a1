"""JSON lines, one object per sampled point, for pipes."""

import json
from typing import Any, TextIO

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.records import columns_of


def write_rows(stream: TextIO, cloud: Cloud, rows: Rows, **extra: Array) -> None:
    """Writes each row's index, coordinates, attributes and the extra columns given.

    NaN and infinity, which JSON lacks, become null.
    """
    attributes = {name: values[rows] for name, values in cloud.attributes.items()}
    columns = {"index": rows, **columns_of(cloud.points[rows], attributes), **extra}
    names = list(columns)
    for row in zip(*(_plain(column) for column in columns.values()), strict=True):
        stream.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


def _plain(column: Array) -> list[Any]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    # By way of text, so that float32 0.1 becomes 0.1.
    digits = column.astype(str)
    finite = np.isfinite(column)
    return [float(d) if known else None for d, known in zip(digits, finite, strict=True)]
