"""PLY: a subset has header and vertices of the file byte for byte; other elements are left out."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal

import numpy as np

from farpoint._adapters import split_records
from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import content_lines, decode, head_lines, parse_columns
from farpoint.io.records import columns_of, join_columns

_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
_TYPES |= {"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"}
_NAMES = {kind: name for name, kind in reversed(_TYPES.items()) if name[-1].isalpha()}
_TYPES |= {f"{k}{8 * size}": f"{k[0]}{size}" for k in ("int", "uint") for size in (1, 2, 4, 8)}
_Order = Literal["<", ">"]
_ORDERS: dict[str, _Order] = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass(frozen=True)
class _Property:
    """A property of each row; a list has a type of its length, else None."""

    name: str
    dtype: np.dtype[np.generic]
    length: np.dtype[np.generic] | None


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of records of the properties that are no lists."""
        return np.dtype([(p.name, p.dtype) for p in self.properties if p.length is None])

    @property
    def has_lists(self) -> bool:
        return any(p.length is not None for p in self.properties)


@dataclass(frozen=True)
class PlySource:
    """The header lines without other elements, and the records, or the bytes, of each vertex."""

    head: list[bytes]
    kept: Array | list[bytes]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the vertices with all properties, in the file's own encoding."""
        count = rb"\g<1>%d" % len(rows)
        head = [re.sub(rb"^(\s*element\s+vertex\s+)\d+", count, line) for line in self.head]
        if isinstance(self.kept, list):
            body = b"".join(self.kept[row] for row in rows)
        else:
            body = self.kept[rows].tobytes()
        path.write_bytes(b"".join(head) + body)


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the element `vertex`; a list property is kept but is not an attribute."""
    data = path.read_bytes()
    encoding, elements, head, end = _parse_head(data)
    vertex = next((element for element in elements if element.name == "vertex"), None)
    if vertex is None:
        raise ValueError("no element named vertex")
    body = memoryview(data)[end:]
    for element in elements:
        if element.count > len(body):
            raise ValueError(
                f"{element.count} of {element.name} announced, {len(body)} bytes are there"
            )
    kept: Array | list[bytes]
    if encoding == "ascii":
        kept = _vertex_lines(elements, vertex, bytes(body))
        records = _parse_lines(vertex, kept)
    else:
        records, kept = _read_binary(elements, body, _ORDERS[encoding])
    points, attributes = split_records(records)
    lists = [p.name for p in vertex.properties if p.length is not None]
    notes = [f"not an attribute: {', '.join(lists)} (a list)"] if lists else []
    others = (e for e in elements if e is not vertex and e.count)
    notes += [f"left out: {e.count} of the element {e.name}" for e in others]
    return Cloud(points, attributes, PlySource(head, kept), notes=tuple(notes))


def _parse_head(data: bytes) -> tuple[str, list[_Element], list[bytes], int]:
    """The encoding, the elements, the lines without other elements than the vertices, the end."""
    encoding, elements, kept, end = "", list[_Element](), list[bytes](), 0
    for line in head_lines(data if data.startswith(b"ply") else b""):
        end += len(line)
        words = [*map(decode, line.split())]
        match words:
            case ["format", found, _]:
                encoding = found
            case ["element", name, count] if count.isdigit():
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length, kind, name] if elements:
                elements[-1].properties.append(_Property(name, _type(kind), _type(length)))
            case ["property", kind, name] if elements:
                elements[-1].properties.append(_Property(name, _type(kind), None))
            case ["format" | "element" | "property", *_]:
                raise ValueError(f"the header line {' '.join(words)!r} is not understood")
        if words[:1] not in (["element"], ["property"]) or elements[-1].name == "vertex":
            kept.append(line)
        if words == ["end_header"]:
            break
    else:
        raise ValueError(f"expected a header from `ply` to `end_header`, got {data[:40]!r}")
    if encoding not in _ORDERS:
        raise ValueError(f"the format is {encoding!r}, expected {', '.join(_ORDERS)}")
    return encoding, elements, kept, end


def _type(name: str) -> np.dtype[np.generic]:
    if name not in _TYPES:
        raise ValueError(f"unknown type {name!r}")
    return np.dtype(_TYPES[name])


def _vertex_lines(elements: list[_Element], vertex: _Element, body: bytes) -> list[bytes]:
    """A line for each vertex, joined where it stands on several."""
    lines = content_lines(body)
    filled = [element for element in elements if element.properties]
    if len(lines) != sum(element.count for element in filled):
        lines = _join_lines(filled, body.split())
    first = sum(element.count for element in takewhile(lambda e: e is not vertex, filled))
    return lines[first : first + vertex.count]


def _join_lines(elements: list[_Element], words: list[bytes]) -> list[bytes]:
    lines, at = list[bytes](), 0
    for element in elements:
        for i in range(element.count):
            cells, at = _cells(element, i, words, at)
            lines.append(b" ".join(chain.from_iterable(cells)) + b"\n")
    if at < len(words):
        raise ValueError(f"{len(words) - at} words are left over after the last element")
    return lines


def _cells(element: _Element, i: int, words: list[bytes], at: int) -> tuple[list[list[bytes]], int]:
    """The words of each property of row `i`, which begins at `at`, and its end."""
    cells: list[list[bytes]] = []
    for prop in element.properties:
        word = words[at] if at < len(words) else b""
        is_list = prop.length is not None
        if not word or (is_list and not word.isdigit()):
            raise ValueError(f"{prop.name} of {element.name} {i} is {decode(word)!r}")
        end = at + 1 + (int(word) if is_list else 0)
        cells.append(words[at:end])
        at = end
    if at > len(words):
        raise ValueError(f"the text ends in {element.name} {i} of {element.count}")
    return cells, at


def _parse_lines(vertex: _Element, lines: list[bytes]) -> Array:
    """The properties that are no lists as records; the values of lists are checked."""
    if vertex.has_lists:
        rows = [_cells(vertex, i, line.split(), 0)[0] for i, line in enumerate(lines)]
        for j, prop in enumerate(vertex.properties):
            values = [word for row in rows for word in row[j][1:]]
            points = [i for i, row in enumerate(rows) for _ in row[j][1:]]
            parse_columns(values, [(prop.name, prop.dtype)], points)
        lines = [b" ".join(row[j][0] for j in range(len(row))) for row in rows]
    columns = parse_columns(lines, [(p.name, p.length or p.dtype) for p in vertex.properties])
    records = np.empty(vertex.count, vertex.dtype)
    for prop, column in zip(vertex.properties, columns, strict=True):
        if prop.length is None:
            records[prop.name] = column
    return records


def _read_binary(
    elements: list[_Element], data: memoryview, order: _Order
) -> tuple[Array, Array | list[bytes]]:
    """The records of the vertices, and their bytes where they have lists."""
    at = 0
    records = np.empty(0)
    kept: Array | list[bytes] = records
    for element in elements:
        begin, dtype = at, element.dtype.newbyteorder(order)
        rows: list[bytes] = []
        plain: list[bytes] = []
        for first, part, end in _rows(element, data, at, order):
            at = end
            if element.name == "vertex":
                rows.append(bytes(data[first:end]))
                plain.append(part)
        if not element.has_lists:
            at += element.count * dtype.itemsize
        if at > len(data):
            raise ValueError(f"the data ends in the element {element.name}")
        if element.name == "vertex":
            found = b"".join(plain) if element.has_lists else data[begin:at]
            records = np.frombuffer(found, dtype)
            kept = rows if element.has_lists else records
    if bytes(data[at:]).strip():
        raise ValueError(f"{len(data) - at} bytes are left over after the last element")
    return records, kept


def _rows(
    element: _Element, data: memoryview, at: int, order: _Order
) -> Iterator[tuple[int, bytes, int]]:
    """Begin, bytes without lists, and end of each row of an element with lists."""
    steps = [
        (p.dtype.itemsize, p.length and struct.Struct(order + p.length.char))
        for p in element.properties
    ]
    for i in range(element.count if element.has_lists else 0):
        begin, plain = at, b""
        for size, length in steps:
            if length is None:
                plain += data[at : at + size]
                at += size
            elif at + length.size > len(data) or (n := length.unpack_from(data, at)[0]) < 0:
                raise ValueError(f"the data ends in {element.name} {i} of {element.count}")
            else:
                at += length.size + size * int(n)
        yield begin, plain, at


def write(path: Path, cloud: Cloud) -> list[str]:
    """Writes a binary little-endian PLY; returns the names of columns that are left out."""
    columns = columns_of(cloud.points, cloud.attributes)
    records, lost = join_columns(columns, has_long=False)
    names = records.dtype.names or ()
    lines = (
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(records)}",
        *(f"property {_NAMES[records.dtype[name].str[1:]]} {name}" for name in names),
        "end_header",
    )
    path.write_bytes("".join(f"{line}\n" for line in lines).encode() + records.tobytes())
    return lost
