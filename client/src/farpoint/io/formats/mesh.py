"""Vertices of the Object File Format (.off, COFF, NOFF, STOFF) and STL; faces are left out."""

import re
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.numbers import content_lines, parse_table

_STL_HEAD_BYTES = 84
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_OFF_KINDS = (*(a + b + "OFF" for a in ("", "ST") for b in ("C", "N", "CN")), "STOFF", "OFF")


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads the vertices of a mesh, with the colors and normals that the file gives them."""
    is_off = (options.format or path.suffix).lower() == ".off"
    return (_read_off if is_off else _read_stl)(path.read_bytes())


def _read_off(data: bytes) -> Cloud:
    """The vertices, with normals, colors and texture coordinates where the file has them."""
    lines = content_lines(re.sub(rb"#[^\r\n]*", b"", data))
    kind, vertices, faces, lines = _off_head(lines)
    if len(lines) < vertices + faces:
        raise ValueError(
            f"{vertices} vertices and {faces} faces announced, {len(lines)} lines are there"
        )
    values = parse_table(lines[:vertices]) if vertices else np.empty((0, 3))
    if values.shape[1] < 3:
        raise ValueError("expected as many numbers, three or more, for each vertex")
    notes = (f"left out: {faces} faces",) if faces else ()
    return Cloud(values[:, :3], _off_attributes(kind, values[:, 3:]), notes=notes)


def _off_head(lines: list[bytes]) -> tuple[str, int, int, list[bytes]]:
    """The kind, such as "COFF", the numbers of vertices and faces, and the lines below."""
    words = lines[0].decode("ascii", "replace").split() if lines else []
    if not words:
        raise ValueError("the file is empty")
    if not words[0].upper().startswith(_OFF_KINDS):
        raise ValueError(f"expected OFF in the first line, got {words[0][:20]!r}")
    if "BINARY" in map(str.upper, words):
        raise ValueError("a binary OFF is not read: save it as text")
    # ModelNet has files whose counts follow OFF without a blank.
    mark = words[0].upper().index("OFF") + 3
    counts = [words[0][mark:], *words[1:]] if words[0][mark:] else words[1:]
    first = 1
    if not counts:
        counts, first = b"".join(lines[1:2]).decode("ascii", "replace").split(), 2
    if len(counts) < 2 or not (counts[0].isdecimal() and counts[1].isdecimal()):
        raise ValueError("expected the numbers of vertices, faces and edges")
    return words[0][:mark].upper(), int(counts[0]), int(counts[1]), lines[first:]


def _off_attributes(kind: str, rest: Array) -> dict[str, Array]:
    found: dict[str, Array] = {}
    if "N" in kind[:-3] and rest.shape[1] >= 3:
        found |= dict(zip(("nx", "ny", "nz"), rest[:, :3].T, strict=True))
        rest = rest[:, 3:]
    if "C" in kind[:-3] and rest.shape[1] >= 3:
        colors = rest[:, :3]
        found["rgb"] = colors if colors.max(initial=0) <= 1 else colors.astype(np.uint8)
        rest = rest[:, 4 if rest.shape[1] in (4, 6) else 3 :]  # with or without alpha
    return found | {f"column_{i}": rest[:, i] for i in range(rest.shape[1])}


def _read_stl(data: bytes) -> Cloud:
    """Each corner of the triangles once, in the order of first appearance.

    A triangle repeats the corners that it shares with others, and a sample of the repeats would
    be no sample of the shape.
    """
    corners = _stl_text(data) if _is_stl_text(data) else _stl_binary(data)
    _, first = np.unique(corners, axis=0, return_index=True)
    return Cloud(corners[np.sort(first)], {}, notes=(f"left out: {len(corners) // 3} triangles",))


def _is_stl_text(data: bytes) -> bool:
    """Binary files may begin with `solid` too: only their size tells them apart."""
    if data.lstrip()[:5].lower() != b"solid":
        return False
    return len(data) < _STL_HEAD_BYTES or len(data) != _stl_bytes(data)


def _stl_bytes(data: bytes) -> int:
    """The size that the head of a binary file announces."""
    return _STL_HEAD_BYTES + int.from_bytes(data[80:84], "little") * _STL_TRIANGLE.itemsize


def _stl_binary(data: bytes) -> Array:
    if len(data) < _STL_HEAD_BYTES:
        raise ValueError(f"expected a head of {_STL_HEAD_BYTES} bytes, got {len(data)}")
    expected = _stl_bytes(data)
    count = int.from_bytes(data[80:84], "little")
    if len(data) < expected or data[expected:].strip(b"\0"):
        raise ValueError(f"{count} triangles are {expected} bytes, got {len(data)}")
    triangles = np.frombuffer(data, _STL_TRIANGLE, count, _STL_HEAD_BYTES)
    return triangles["corners"].reshape(-1, 3)


def _stl_text(data: bytes) -> Array:
    if not data.rstrip().splitlines()[-1].lstrip().lower().startswith(b"endsolid"):
        raise ValueError("the last line is no endsolid: the file is cut short")
    found = re.findall(rb"^[ \t]*vertex[ \t]+(.*?)[ \t\r]*$", data, re.MULTILINE | re.IGNORECASE)
    table = parse_table(found) if found else np.empty((0, 3))
    if table.shape[1] != 3 or len(table) % 3:
        raise ValueError("expected three numbers for each vertex and three vertices a triangle")
    return table
