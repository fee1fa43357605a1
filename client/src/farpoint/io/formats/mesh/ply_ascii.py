"""The vertices of an ASCII PLY; the lines of all other elements are counted and left alone."""

import re
from dataclasses import dataclass

import numpy as np

from farpoint._types import Array
from farpoint.io.formats.text.decimal import NotANumberError
from farpoint.io.formats.text.lines import Lines, split_lines
from farpoint.io.formats.text.table import Table, read_table

_TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
}
_TYPES |= {f"{k}{8 * s}": f"{k[0]}{s}" for k in ("int", "uint", "float") for s in (1, 2, 4, 8)}


@dataclass(frozen=True)
class Element:
    """An element of the header: its name, how many there are, and name and type of properties.

    The type of a property that is a list is None.
    """

    name: str
    count: int
    properties: tuple[tuple[str, str | None], ...]


def parse_elements(head: str) -> list[Element]:
    """The elements that a header names."""
    found: list[Element] = []
    for block in re.split(r"^element\b", head, flags=re.MULTILINE)[1:]:
        words, *lines = block.strip().splitlines()
        name, _, count = words.strip().partition(" ")
        properties = [line.split() for line in lines if line.startswith("property")]
        if not count.strip().isdigit() or any(len(p) not in (3, 5) for p in properties):
            raise ValueError(f"the element {words.strip()!r} is not understood")
        types = tuple((p[-1], None if len(p) == 5 else _type(p[1])) for p in properties)
        found.append(Element(name, int(count), types))
    return found


def _type(name: str) -> str:
    if name not in _TYPES:
        raise ValueError(f"unknown type {name!r}")
    return _TYPES[name]


def read_vertices(elements: list[Element], body: Array) -> Array | None:
    """Structured records of the element `vertex`; None where it has lists.

    Args:
        elements: of the header, with a vertex among them.
        body: (bytes,) uint8, all behind the header.

    Raises:
        ValueError: the file has more or fewer lines than the elements ask for, or a line of a
            vertex holds other than its properties.
    """
    place = next(i for i, element in enumerate(elements) if element.name == "vertex")
    vertex = elements[place]
    if not vertex.count or any(kind is None for _, kind in vertex.properties):
        return None
    lines = _without_blanks(split_lines(body), body)
    expected = sum(element.count for element in elements if element.properties)
    if len(lines) != expected:
        raise ValueError(f"expected {expected} lines of elements, got {len(lines)}")
    first = sum(element.count for element in elements[:place])
    table = read_table(lines.select(slice(first, first + vertex.count)), None)
    if table is None or table.width != len(vertex.properties):
        raise ValueError(f"expected {len(vertex.properties)} values for each vertex")
    return _records(table, vertex)


def _without_blanks(lines: Lines, body: Array) -> Lines:
    """A line of PLY begins with a number or its sign, so few need a second look."""
    blank = (lines.begins == lines.ends) | (body[np.minimum(lines.begins, len(body) - 1)] <= 32)
    if not blank.any():
        return lines
    kept = ~blank
    for i in np.flatnonzero(blank):
        kept[i] = bool(lines[int(i)].strip())
    return lines.select(kept)


def _records(table: Table, vertex: Element) -> Array:
    try:
        values = table.numbers()
    except NotANumberError as error:
        row = error.token // table.width
        raise ValueError(f"vertex {row}: {error}") from error
    records = np.empty(len(values), [(name, kind) for name, kind in vertex.properties])
    for i, (name, _) in enumerate(vertex.properties):
        with np.errstate(invalid="raise", over="ignore"):
            records[name] = values[:, i]
    return records
