"""PLY through plyfile: the vertices, with every property; faces are left out."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from farpoint.io.cloud import Cloud, Rows
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
    from plyfile import PlyData, PlyParseError

    try:
        with _open(path) as stream:
            ply = PlyData.read(stream)
            left = stream.read()
    except PlyParseError as error:
        raise ValueError(str(error)) from error
    if left.strip():
        raise ValueError("something is left over after the last element")
    if "vertex" not in ply:
        raise ValueError("no element named vertex")
    points, attributes = split_records(ply["vertex"].data)
    numeric = {name: values for name, values in attributes.items() if values.dtype != object}
    others = [f"{e.count} of the element {e.name}" for e in ply if e.name != "vertex" and e.count]
    notes = (f"left out: {', '.join(others)}",) if others else ()
    return Cloud(points, numeric, PlySource(ply), notes=notes)


def _open(path: Path) -> IO[Any]:
    """The file as plyfile wants it.

    An ASCII file as text, since plyfile would wrap its bytes and close them unread; and a header
    without blanks at the ends of its lines, which it refuses.
    """
    with path.open("rb") as stream:
        head = _read_head(stream)
        plain = b"".join(line.strip() + b"\n" for line in head.splitlines())
        size = path.stat().st_size - stream.tell()
        _check_counts(plain, size)
        if b"format ascii" in plain:
            text = (plain + stream.read()).decode("ascii", errors="backslashreplace")
            return io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
        if plain != head:
            return io.BytesIO(plain + stream.read())
    return path.open("rb")


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
