"""Legacy VTK files, ASCII and binary: the points of POLYDATA and UNSTRUCTURED_GRID."""

from pathlib import Path

from farpoint._types import Array
from farpoint.io.cloud import Cloud
from farpoint.io.formats.vtk.arrays import as_attribute
from farpoint.io.formats.vtk.stream import LegacyStream
from farpoint.io.options import ReadOptions

_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")
_WIDTHS = {"VECTORS": 3, "NORMALS": 3}


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the points, and each array of POINT_DATA."""
    stream = LegacyStream(path.read_bytes())
    if stream.dataset not in ("POLYDATA", "UNSTRUCTURED_GRID"):
        raise ValueError(f"the dataset is {stream.dataset}, expected POLYDATA or UNSTRUCTURED_GRID")
    points: Array | None = None
    attributes: dict[str, Array] = {}
    cells, of_points = 0, 0
    while words := stream.words():
        keyword = words[0].upper()
        if keyword == "POINTS":
            points = as_attribute(stream.values(3 * int(words[1]), words[2]), int(words[1]), 3)
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
            _read_data(stream, words, of_points, attributes)
    if points is None:
        raise ValueError("no POINTS")
    kept = {name: values for name, values in attributes.items() if len(values) == len(points)}
    return Cloud(points, kept, notes=(f"left out: {cells} cells",) if cells else ())


def _skip_cells(stream: LegacyStream, words: list[str]) -> None:
    """From version 5.1 on offsets and connectivity, before that one list of both."""
    if stream.version < (5, 0):
        stream.values(int(words[2]), "int")
        return
    for count in (int(words[1]), int(words[2])):
        name = stream.words()
        if name[0].upper() not in ("OFFSETS", "CONNECTIVITY"):
            raise ValueError(f"expected OFFSETS or CONNECTIVITY, got {name[0]!r}")
        stream.values(count, name[1])


def _read_data(
    stream: LegacyStream, words: list[str], rows: int, attributes: dict[str, Array]
) -> None:
    """One attribute; rows is negative for those of cells, which are passed over."""
    keyword, count = words[0].upper(), abs(rows)
    found: dict[str, Array] = {}
    if keyword == "FIELD":
        for _ in range(int(words[2])):
            name, components, tuples, kind = stream.words()
            values = stream.values(int(components) * int(tuples), kind)
            found[name] = as_attribute(values, int(tuples), int(components))
    elif keyword == "SCALARS":
        width = int(words[3]) if len(words) > 3 else 1
        stream.skip_lookup_table()
        found[words[1]] = as_attribute(stream.values(count * width, words[2]), count, width)
    elif keyword in _WIDTHS:
        found[words[1]] = as_attribute(stream.values(count * 3, words[2]), count, 3)
    elif keyword == "TEXTURE_COORDINATES":
        width = int(words[2])
        found[words[1]] = as_attribute(stream.values(count * width, words[3]), count, width)
    elif keyword == "COLOR_SCALARS":
        width = int(words[2])
        kind = "unsigned_char" if stream.binary else "float"
        found[words[1]] = as_attribute(stream.values(count * width, kind), count, width)
    elif keyword == "LOOKUP_TABLE":
        stream.values(4 * int(words[2]), "unsigned_char" if stream.binary else "float")
    elif keyword == "TENSORS":
        found[words[1]] = as_attribute(stream.values(count * 9, words[2]), count, 9)
    else:
        raise ValueError(f"unknown keyword {words[0][:40]!r}")
    if rows > 0:
        attributes |= found
