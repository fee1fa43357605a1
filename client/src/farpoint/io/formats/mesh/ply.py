"""PLY through plyfile: the vertices, with every property; faces are left out."""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np

from farpoint.io.cloud import Cloud, Rows
from farpoint.io.formats.mesh.ply_ascii import parse_elements, read_vertices
from farpoint.io.options import ReadOptions
from farpoint.io.records import columns_of, join_columns, split_records

if TYPE_CHECKING:
    from plyfile import PlyData


# Comments may be long; a file without line ends is no PLY.
_LONGEST_LINE = 1 << 16


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


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the element `vertex`; a property that is a list is kept but is no attribute."""
    from plyfile import PlyParseError

    with path.open("rb") as stream:
        head = _read_head(stream)
        plain = b"".join(line.strip() + b"\n" for line in head.splitlines())
        _check_counts(plain, path.stat().st_size - stream.tell())
        try:
            is_ascii = b"\nformat ascii" in plain
            ply = _read_ascii(plain, stream) if is_ascii else _read_binary(plain, head, stream)
        except PlyParseError as error:
            raise ValueError(str(error)) from error
    points, attributes = split_records(ply["vertex"].data)
    numeric = {name: values for name, values in attributes.items() if values.dtype != object}
    elements = parse_elements(plain.decode("ascii", "replace"))
    others = [f"{e.count} of the element {e.name}" for e in elements if e.name != "vertex"]
    notes = tuple(f"left out: {other}" for other in others if not other.startswith("0 "))
    return Cloud(points, numeric, PlySource(ply), notes=notes)


def _read_ascii(head: bytes, stream: BinaryIO) -> "PlyData":
    """The vertices alone where they have no lists, else all that plyfile reads."""
    from plyfile import PlyData, PlyElement

    elements = parse_elements(head.decode("ascii", "replace"))
    _check_vertex(element.name for element in elements)
    body = stream.read()
    records = read_vertices(elements, np.frombuffer(body, np.uint8))
    if records is None:
        text = (head + body).decode("ascii", errors="backslashreplace")
        return _read_whole(io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")))
    blank = _read_whole(io.StringIO(re.sub(r"(?m)^(element \S+) \d+$", r"\1 0", head.decode())))
    comments = list(blank["vertex"].comments)
    vertex = PlyElement.describe(records, "vertex", comments=comments)
    return PlyData([vertex], text=True, comments=blank.comments, obj_info=blank.obj_info)


def _read_binary(plain: bytes, head: bytes, stream: BinaryIO) -> "PlyData":
    if plain != head:  # plyfile refuses blanks at the ends of lines
        return _read_whole(io.BytesIO(plain + stream.read()))
    stream.seek(0)
    return _read_whole(stream)


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


def _read_head(stream: BinaryIO) -> bytes:
    """The lines down to `end_header`."""
    lines: list[bytes] = []
    while not lines or lines[-1].strip() != b"end_header":
        line = stream.readline(_LONGEST_LINE)
        if not line or (not lines and line.strip()[:3] != b"ply"):
            raise ValueError("expected a header from `ply` to `end_header`")
        lines.append(line)
    return b"".join(lines)


def _check_counts(head: bytes, size: int) -> None:
    """Raises ValueError where more is announced than there is; plyfile makes room first."""
    for line in head.splitlines():
        found = re.match(rb"element\s+(\S+)\s+(\d+)$", line)
        if found and int(found[2]) > size:
            name = found[1].decode("ascii", "replace")
            raise ValueError(f"{int(found[2])} of {name} announced, {size} bytes are there")


def write(path: Path, cloud: Cloud) -> None:
    """Writes a binary little-endian PLY."""
    from plyfile import PlyData, PlyElement

    records = join_columns(columns_of(cloud.points, cloud.attributes))
    PlyData([PlyElement.describe(records, "vertex")], byte_order="<").write(str(path))
