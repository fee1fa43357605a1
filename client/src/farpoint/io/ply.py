"""PLY through plyfile: the vertices, with every property; faces are left out."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from farpoint._arrays import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.records import columns_of, join_columns, split_records

if TYPE_CHECKING:
    from plyfile import PlyData


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


def read(path: Path) -> Cloud:
    """Reads the element `vertex`; a property that is a list is kept but is no attribute."""
    from plyfile import PlyData, PlyParseError

    try:
        with _open(path) as stream:
            ply = PlyData.read(stream)
            left = stream.read(1)
    except PlyParseError as error:
        raise ValueError(str(error)) from error
    if left:
        raise ValueError("something is left over after the last element")
    if "vertex" not in ply:
        raise ValueError("no element named vertex")
    points, attributes = split_records(ply["vertex"].data)
    numeric = {name: values for name, values in attributes.items() if values.dtype != object}
    return Cloud(points, numeric, PlySource(ply))


def _open(path: Path) -> IO[Any]:
    """An ASCII file as text: plyfile would wrap its bytes and close them unread."""
    with path.open("rb") as stream:
        is_text = b"format ascii" in stream.readline() + stream.readline()
    return path.open(encoding="ascii", errors="backslashreplace") if is_text else path.open("rb")


def write(path: Path, points: Array, attributes: dict[str, Array]) -> None:
    """Writes a binary little-endian PLY."""
    from plyfile import PlyData, PlyElement

    records = join_columns(columns_of(points, attributes))
    PlyData([PlyElement.describe(records, "vertex")], byte_order="<").write(str(path))
