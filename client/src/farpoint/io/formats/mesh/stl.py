"""Vertices of STL, binary and ASCII: the distinct corners of its triangles."""

import re
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud
from farpoint.io.formats.text.lines import split_lines
from farpoint.io.formats.text.table import read_table
from farpoint.io.options import ReadOptions

HEAD_BYTES = 84
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads each corner once, in the order of first appearance; float32, from text float64.

    A triangle repeats the corners that it shares with others, and a sample of the repeats would
    be no sample of the shape.
    """
    data = path.read_bytes()
    corners = _ascii(data) if _is_ascii(data) else _binary(data)
    _, first = np.unique(corners, axis=0, return_index=True)
    notes = (f"left out: {len(corners) // 3} triangles",)
    return Cloud(corners[np.sort(first)], {}, notes=notes)


def _is_ascii(data: bytes) -> bool:
    """Also binary files begin with `solid`: only their size tells them apart."""
    if data.lstrip()[:5].lower() != b"solid":
        return False
    return len(data) < HEAD_BYTES or len(data) != HEAD_BYTES + _count(data) * TRIANGLE.itemsize


def _count(data: bytes) -> int:
    return int.from_bytes(data[80:HEAD_BYTES], "little")


def _binary(data: bytes) -> Array:
    if len(data) < HEAD_BYTES:
        raise ValueError(f"expected a head of {HEAD_BYTES} bytes, got {len(data)}")
    expected = HEAD_BYTES + _count(data) * TRIANGLE.itemsize
    if len(data) < expected or data[expected:].strip(b"\0"):
        raise ValueError(f"{_count(data)} triangles are {expected} bytes, got {len(data)}")
    triangles = np.frombuffer(data, TRIANGLE, _count(data), HEAD_BYTES)
    return triangles["corners"].reshape(-1, 3)


def _ascii(data: bytes) -> Array:
    if not data.rstrip().splitlines()[-1].lstrip().lower().startswith(b"endsolid"):
        raise ValueError("the last line is no endsolid: the file is cut short")
    found = re.findall(rb"^[ \t]*vertex[ \t]+(.*?)[ \t\r]*$", data, re.MULTILINE | re.IGNORECASE)
    if not found:
        return np.empty((0, 3))
    table = read_table(split_lines(np.frombuffer(b"\n".join(found), np.uint8)), None)
    if table is None or table.width != 3 or len(table.lines) % 3:
        raise ValueError("expected three numbers for each vertex and three vertices a triangle")
    return table.numbers()
