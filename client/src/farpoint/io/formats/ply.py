"""PLY through plyfile: the vertices, with every property; faces are left out.

plyfile parses ASCII rows one by one and allocates all that a header announces. Vertices of
ASCII files without lists are parsed as a table here, and the header's counts are checked first.
"""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import content_lines, parse_table
from farpoint.io.records import columns_of, join_columns, split_records

if TYPE_CHECKING:
    from plyfile import PlyData

# Comments may be long; a file without line ends is no PLY.
_LONGEST_LINE = 1 << 16
_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
_TYPES |= {f"{k}{8 * s}": f"{k[0]}{s}" for k in ("int", "uint", "float") for s in (1, 2, 4, 8)}
_TYPES |= {"float": "f4", "double": "f8"}


@dataclass(frozen=True)
class PlySource:
    """The file as plyfile holds it."""

    ply: "PlyData"

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the vertices with all properties, in the file's own encoding."""
        from plyfile import PlyData, PlyElement

        vertex = self.ply["vertex"]
        chosen = PlyElement.describe(vertex.data[rows], "vertex", comments=list(vertex.comments))
        PlyData(
            [chosen],
            text=self.ply.text,
            byte_order=self.ply.byte_order,
            comments=list(self.ply.comments),
            obj_info=list(self.ply.obj_info),
        ).write(str(path))


@dataclass(frozen=True)
class _Element:
    """An element of the header; the type of a list property is None."""

    name: str
    count: int
    properties: tuple[tuple[str, str | None], ...]


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the element `vertex`; a list property is kept but is not an attribute."""
    from plyfile import PlyParseError

    with path.open("rb") as stream:
        head = _read_head(stream)
        plain = b"".join(line.strip() + b"\n" for line in head.splitlines())
        elements = _parse_elements(plain.decode("ascii", "replace"))
        rest = path.stat().st_size - stream.tell()
        for element in elements:
            if element.count > rest:
                raise ValueError(
                    f"{element.count} of {element.name} announced, {rest} bytes are there"
                )
        try:
            if b"\nformat ascii" in plain:
                ply = _read_ascii(plain, elements, stream.read())
            elif plain != head:  # plyfile refuses blanks at the ends of lines
                ply = _read_whole(io.BytesIO(plain + stream.read()))
            else:
                stream.seek(0)
                ply = _read_whole(stream)
        except PlyParseError as error:
            raise ValueError(str(error)) from error
    points, attributes = split_records(ply["vertex"].data)
    numeric = {name: values for name, values in attributes.items() if values.dtype != object}
    others = (e for e in elements if e.name != "vertex" and e.count)
    notes = tuple(f"left out: {e.count} of the element {e.name}" for e in others)
    return Cloud(points, numeric, PlySource(ply), notes=notes)


def _read_head(stream: BinaryIO) -> bytes:
    """The header lines, up to `end_header`."""
    lines: list[bytes] = []
    while not lines or lines[-1].strip() != b"end_header":
        line = stream.readline(_LONGEST_LINE)
        if not line or (not lines and line.strip()[:3] != b"ply"):
            raise ValueError("expected a header from `ply` to `end_header`")
        lines.append(line)
    return b"".join(lines)


def _parse_elements(head: str) -> list[_Element]:
    found: list[_Element] = []
    for block in re.split(r"^element\b", head, flags=re.MULTILINE)[1:]:
        words, *lines = block.strip().splitlines()
        name, _, count = words.strip().partition(" ")
        properties = [line.split() for line in lines if line.startswith("property")]
        if not count.strip().isdigit() or any(len(p) not in (3, 5) for p in properties):
            raise ValueError(f"the element {words.strip()!r} is not understood")
        types = tuple((p[-1], None if len(p) == 5 else _type(p[1])) for p in properties)
        found.append(_Element(name, int(count), types))
    return found


def _type(name: str) -> str:
    if name not in _TYPES:
        raise ValueError(f"unknown type {name!r}")
    return _TYPES[name]


def _read_ascii(head: bytes, elements: list[_Element], body: bytes) -> "PlyData":
    """Only the vertices if they have no lists, else all that plyfile reads."""
    from plyfile import PlyData, PlyElement

    _check_vertex(element.name for element in elements)
    records = _read_vertices(elements, body)
    if records is None:
        text = (head + body).decode("ascii", errors="backslashreplace")
        return _read_whole(io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")))
    blank = _read_whole(io.StringIO(re.sub(r"(?m)^(element \S+) \d+$", r"\1 0", head.decode())))
    comments = list(blank["vertex"].comments)
    vertex = PlyElement.describe(records, "vertex", comments=comments)
    return PlyData([vertex], text=True, comments=blank.comments, obj_info=blank.obj_info)


def _read_vertices(elements: list[_Element], body: bytes) -> Array | None:
    """Structured records of the element `vertex`; None if it has lists."""
    place = next(i for i, element in enumerate(elements) if element.name == "vertex")
    vertex = elements[place]
    if not vertex.count or any(kind is None for _, kind in vertex.properties):
        return None
    lines = content_lines(body)
    expected = sum(element.count for element in elements if element.properties)
    if len(lines) != expected:
        raise ValueError(f"expected {expected} lines of elements, got {len(lines)}")
    first = sum(element.count for element in elements[:place])
    values = parse_table(lines[first : first + vertex.count])
    if values.shape[1] != len(vertex.properties):
        raise ValueError(f"expected {len(vertex.properties)} values for each vertex")
    records = np.empty(len(values), list(vertex.properties))
    for i, (name, _) in enumerate(vertex.properties):
        with np.errstate(invalid="raise", over="ignore"):
            records[name] = values[:, i]
    return records


def _read_whole(stream: IO[Any]) -> "PlyData":
    from plyfile import PlyData

    ply = PlyData.read(stream)
    _check_vertex(element.name for element in ply)
    if stream.read().strip():
        raise ValueError("something is left over after the last element")
    return ply


def _check_vertex(names: Iterable[str]) -> None:
    if "vertex" not in names:
        raise ValueError("no element named vertex")


def write(path: Path, cloud: Cloud) -> None:
    """Writes a binary little-endian PLY."""
    from plyfile import PlyData, PlyElement

    records = join_columns(columns_of(cloud.points, cloud.attributes))
    PlyData([PlyElement.describe(records, "vertex")], byte_order="<").write(str(path))
