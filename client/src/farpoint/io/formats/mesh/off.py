"""Vertices of the Object File Format (.off, also COFF, NOFF, STOFF); faces are left out."""

import re
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud
from farpoint.io.formats.text.lines import Lines, split_lines
from farpoint.io.formats.text.table import read_table
from farpoint.io.options import ReadOptions


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the vertices, with normals, colors and texture coordinates where the file has them."""
    data = re.sub(rb"#[^\r\n]*", b"", path.read_bytes())
    lines = _without_blanks(split_lines(np.frombuffer(data, np.uint8)))
    kind, counts, first = _head(lines)
    vertices, faces = counts
    if len(lines) - first < vertices + faces:
        raise ValueError(
            f"{vertices} vertices and {faces} faces announced, {len(lines) - first} lines are there"
        )
    body = lines.select(slice(first, first + vertices))
    table = read_table(body, None)
    if vertices and (table is None or table.width < 3 or len(table.lines) != vertices):
        raise ValueError("expected as many numbers, three or more, for each vertex")
    values = table.numbers() if table is not None else np.empty((0, 3))
    notes = (f"left out: {faces} faces",) if faces else ()
    return Cloud(values[:, :3], _attributes(kind, values), notes=notes)


def _without_blanks(lines: Lines) -> Lines:
    kept = [i for i in range(len(lines)) if lines[i].strip()]
    return lines.select(np.array(kept, np.int64))


def _head(lines: Lines) -> tuple[str, tuple[int, int], int]:
    """The kind, such as "COFF", the numbers of vertices and faces, and the first vertex's line."""
    if not len(lines):
        raise ValueError("the file is empty")
    words = lines[0].split()
    kind = words[0].decode("ascii", "replace")
    if not kind.upper().startswith(tuple(_kinds())):
        raise ValueError(f"expected OFF in the first line, got {kind[:20]!r}")
    if "BINARY" in (word.decode("ascii", "replace").upper() for word in words):
        raise ValueError("a binary OFF is not read: save it as text")
    # ModelNet has files whose counts follow OFF without a blank.
    mark = kind.upper().index("OFF") + 3
    rest = [kind[mark:].encode(), *words[1:]] if kind[mark:] else words[1:]
    first = 1
    if not rest:
        rest, first = lines[1].split() if len(lines) > 1 else [], 2
    if len(rest) < 2 or not all(word.isdigit() for word in rest[:2]):
        raise ValueError("expected the numbers of vertices, faces and edges")
    return kind[:mark].upper(), (int(rest[0]), int(rest[1])), first


def _kinds() -> list[str]:
    return ["OFF", *(a + b + "OFF" for a in ("", "ST") for b in ("C", "N", "CN")), "STOFF"]


def _attributes(kind: str, values: Array) -> dict[str, Array]:
    found: dict[str, Array] = {}
    rest = values[:, 3:]
    if "N" in kind[:-3] and rest.shape[1] >= 3:
        found |= dict(zip(("nx", "ny", "nz"), rest[:, :3].T, strict=True))
        rest = rest[:, 3:]
    if "C" in kind[:-3] and rest.shape[1] >= 3:
        colors = rest[:, :3]
        found["rgb"] = colors if colors.max(initial=0) <= 1 else colors.astype(np.uint8)
        rest = rest[:, 4 if rest.shape[1] in (4, 6) else 3 :]  # with or without alpha
    found |= {f"column_{i}": rest[:, i] for i in range(rest.shape[1])}
    return found
