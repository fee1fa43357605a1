"""Legacy VTK files, ASCII and binary: the points of POLYDATA and UNSTRUCTURED_GRID."""

import re
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.numbers import parse_numbers
from farpoint.io.records import point_rows

_TYPES = {
    "bit": "u1",
    "char": "i1",
    "unsigned_char": "u1",
    "short": "i2",
    "unsigned_short": "u2",
    "int": "i4",
    "unsigned_int": "u4",
    "long": "i8",
    "unsigned_long": "u8",
    "vtkidtype": "i8",
    "vtktypeint64": "i8",
    "float": "f4",
    "double": "f8",
}
_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")
# Numbers of a row, and which word of the line names their type.
_WIDTHS = {"VECTORS": (3, 2), "NORMALS": (3, 2), "TENSORS": (9, 2)}


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the points, and each array of POINT_DATA."""
    stream = _Stream(path.read_bytes())
    if stream.dataset not in ("POLYDATA", "UNSTRUCTURED_GRID"):
        raise ValueError(f"the dataset is {stream.dataset}, expected POLYDATA or UNSTRUCTURED_GRID")
    points: Array | None = None
    attributes: dict[str, Array] = {}
    cells, of_points = 0, 0
    while words := stream.words():
        keyword = words[0].upper()
        if keyword == "POINTS":
            points = stream.rows(int(words[1]), 3, words[2])
        elif keyword in _CELLS:
            cells += int(words[1]) * (keyword != "VERTICES")
            _skip_cells(stream, words)
        elif keyword == "CELL_TYPES":
            stream.values(int(words[1]), "int")
        elif keyword in ("POINT_DATA", "CELL_DATA"):
            of_points = int(words[1]) if keyword == "POINT_DATA" else -int(words[1])
        elif keyword == "METADATA":
            stream.skip_metadata()
        else:
            found = _read_data(stream, words, abs(of_points))
            attributes |= found if of_points > 0 else {}
    if points is None:
        raise ValueError("no POINTS")
    kept = {name: values for name, values in attributes.items() if len(values) == len(points)}
    return Cloud(points, kept, notes=(f"left out: {cells} cells",) if cells else ())


def _skip_cells(stream: "_Stream", words: list[str]) -> None:
    """From version 5.1 on offsets and connectivity, before that one list of both."""
    if stream.version < (5, 0):
        stream.values(int(words[2]), "int")
        return
    for count in (int(words[1]), int(words[2])):
        name = stream.words()
        if name[0].upper() not in ("OFFSETS", "CONNECTIVITY"):
            raise ValueError(f"expected OFFSETS or CONNECTIVITY, got {name[0]!r}")
        stream.values(count, name[1])


def _read_data(stream: "_Stream", words: list[str], count: int) -> dict[str, Array]:
    """The arrays of one attribute, by name."""
    keyword = words[0].upper()
    color = "unsigned_char" if stream.binary else "float"
    if keyword == "FIELD":
        found = {}
        for _ in range(int(words[2])):
            name, components, tuples, kind = stream.words()
            found[name] = stream.rows(int(tuples), int(components), kind)
        return found
    if keyword == "LOOKUP_TABLE":
        stream.values(4 * int(words[2]), color)
        return {}
    if keyword == "SCALARS":
        width, kind = int(words[3]) if len(words) > 3 else 1, words[2]
        stream.skip_lookup_table()
    elif keyword in _WIDTHS:
        width, kind = _WIDTHS[keyword][0], words[_WIDTHS[keyword][1]]
    elif keyword == "TEXTURE_COORDINATES":
        width, kind = int(words[2]), words[3]
    elif keyword == "COLOR_SCALARS":
        width, kind = int(words[2]), color
    else:
        raise ValueError(f"unknown keyword {words[0][:40]!r}")
    return {words[1]: stream.rows(count, width, kind)}


class _Stream:
    """A file read from its head on: lines of words, and blocks of numbers.

    Attributes:
        version: as in "# vtk DataFile Version 3.0".
        binary: whether numbers are big-endian bytes; else they are text.
        dataset: the kind of geometry, for example POLYDATA.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        first = self._line()
        if not first.startswith("# vtk DataFile Version"):
            raise ValueError("expected '# vtk DataFile Version' in the first line")
        major, _, minor = first.split()[-1].partition(".")
        self.version = (int(major), int(minor or 0))
        self._line()  # a title
        encoding = self._line().strip().upper()
        if encoding not in ("ASCII", "BINARY"):
            raise ValueError(f"expected ASCII or BINARY in the third line, got {encoding[:20]!r}")
        self.binary = encoding == "BINARY"
        words = self.words()
        self.dataset = words[1].upper() if len(words) > 1 else ""

    def words(self) -> list[str]:
        """The words of the next line that has any; none at the end of the file."""
        while self._at < len(self._data):
            if words := self._line().split():
                return words
        return []

    def rows(self, count: int, width: int, kind: str) -> Array:
        """The next numbers, (count,) or (count, width), in the machine's byte order."""
        return point_rows(self.values(count * width, kind), count, width)

    def values(self, count: int, kind: str) -> Array:
        """The next numbers."""
        if kind.lower() not in _TYPES:
            raise ValueError(f"unknown type {kind!r}")
        dtype = np.dtype(_TYPES[kind.lower()]).newbyteorder(">")
        # Checked before memory is taken: a number in text takes two characters at least.
        least = count * (dtype.itemsize if self.binary else 2)
        if count < 0 or least > len(self._data) - self._at + 1:
            raise ValueError(f"{count} numbers of type {kind} announced, fewer are there")
        if not self.binary:
            return self._numbers(count).astype(_TYPES[kind.lower()])
        found = np.frombuffer(self._data, dtype, count, self._at)
        self._at += count * dtype.itemsize
        return found

    def _numbers(self, count: int) -> Array:
        """Numbers of text, which may be broken into lines anywhere."""
        found = re.compile(rb"\s*(?:\S+\s+){%d}\S+" % max(count - 1, 0)).match(self._data, self._at)
        if count == 0:
            return np.empty(0)
        if found is None:
            raise ValueError(f"{count} numbers announced, fewer are there")
        self._at = found.end()
        return parse_numbers(found.group())

    def skip_metadata(self) -> None:
        """METADATA goes on to an empty line."""
        while self._at < len(self._data) and self._line().strip():
            pass

    def skip_lookup_table(self) -> None:
        """The line that may stand between SCALARS and its numbers."""
        before = self._at
        if self.words()[:1] != ["LOOKUP_TABLE"]:
            self._at = before

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        end = len(self._data) if end < 0 else end
        line = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return line.rstrip("\r")
