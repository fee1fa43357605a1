"""VTK's XML files of points (.vtp): inline, appended, raw, base64 and zlib; cells are left out."""

import base64
import re
import zlib
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.numbers import parse_numbers
from farpoint.io.records import point_rows

_TYPES = {
    f"{n}{8 * s}": f"{k}{s}" for n, k in (("Int", "i"), ("UInt", "u")) for s in (1, 2, 4, 8)
} | {"Float32": "f4", "Float64": "f8"}
_APPENDED = re.compile(rb"<AppendedData[^>]*>\s*_")
_ZLIB = "vtkZLibDataCompressor"
# zlib shrinks nothing further than this.
_MAX_RATIO = 1032


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the points of every piece, and the arrays of PointData that every piece has."""
    document = _Document(path.read_bytes())
    pieces = [_piece(document, piece) for piece in document.root.iter("Piece")]
    if not pieces:
        raise ValueError("no Piece")
    names = [n for n in pieces[0] if all(n in piece for piece in pieces)]
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
    points = columns.pop("")
    cells = sum(
        int(piece.get(f"NumberOf{kind}", 0))
        for piece in document.root.iter("Piece")
        for kind in ("Lines", "Strips", "Polys")
    )
    return Cloud(points, columns, notes=(f"left out: {cells} cells",) if cells else ())


def _piece(document: "_Document", piece: ElementTree.Element) -> dict[str, Array]:
    """Arrays by name; the points have the empty one."""
    count = int(piece.get("NumberOfPoints", 0))
    found = {}
    for section in ("Points", "PointData"):
        for element in piece.findall(f"{section}/DataArray"):
            width = 3 if section == "Points" else int(element.get("NumberOfComponents", 1))
            name = "" if section == "Points" else element.get("Name", "unnamed")
            found[name] = point_rows(document.values(element, count * width), count, width)
    if "" not in found:
        raise ValueError("a piece has no Points")
    return found


class _Document:
    """The elements, and how the values of arrays are found and decoded."""

    def __init__(self, data: bytes) -> None:
        match = _APPENDED.search(data)
        self._appended = data[match.end() :] if match else b""
        if match:  # raw bytes are no XML
            data = data[: match.start()] + b"</VTKFile>"
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise ValueError("a document type has no place in a VTK file")
        try:
            self.root = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise ValueError(f"no XML: {error}") from error
        if self.root.tag != "VTKFile" or self.root.get("type") != "PolyData":
            raise ValueError(f"expected a VTKFile of PolyData, got {self.root.get('type')}")
        self._is_raw = bool(match and b"base64" not in match.group())
        self._order: Literal["<", ">"] = ">" if self.root.get("byte_order") == "BigEndian" else "<"
        self._head = np.dtype(_TYPES[self.root.get("header_type", "UInt32")])
        self._compressor = self.root.get("compressor")
        if self._compressor not in (None, _ZLIB):
            raise ValueError(f"compressed by {self._compressor}, expected zlib")

    def values(self, element: ElementTree.Element, count: int) -> Array:
        """The numbers of a DataArray."""
        if element.get("type") not in _TYPES:
            raise ValueError(f"an array has type {element.get('type')}")
        dtype = np.dtype(_TYPES[element.get("type", "")]).newbyteorder(self._order)
        form, text = element.get("format", "ascii"), (element.text or "").strip().encode()
        if form == "ascii":
            found = parse_numbers(text)
            if len(found) != count:
                raise ValueError(f"{count} numbers announced, {len(found)} found")
            return found.astype(dtype.newbyteorder("="))
        if form == "appended":
            begin = int(element.get("offset", 0))
            data = self._block(self._appended[begin:], self._is_raw, count * dtype.itemsize)
        else:
            data = self._block(text, False, count * dtype.itemsize)
        if len(data) != count * dtype.itemsize:
            raise ValueError(f"{count * dtype.itemsize} bytes announced, {len(data)} found")
        return np.frombuffer(data, dtype)

    def _block(self, data: bytes, is_raw: bool, expected: int) -> bytes:
        """The bytes of an array behind their own head."""
        word = self._head.newbyteorder(self._order)
        if self._compressor is None:
            size = int(self._decode(data, is_raw, 0, word, 1)[0])
            whole = self._bytes(data, is_raw, word.itemsize + size)
            return whole[word.itemsize :]
        blocks, length, last = (int(n) for n in self._decode(data, is_raw, 0, word, 3))
        total = length * (blocks - bool(last)) + last
        if total != expected or blocks * word.itemsize > len(data):
            raise ValueError(f"{expected} bytes announced, {total} compressed")
        sizes = self._decode(data, is_raw, 0, word, 3 + blocks)[3:]
        head = (3 + blocks) * word.itemsize
        if not is_raw:  # head and blocks are encoded one after the other
            data, head = data[4 * -(-head // 3) :], 0
        body = self._bytes(data, is_raw, head + int(sizes.sum()))[head:]
        if total > _MAX_RATIO * max(len(body), 1):
            raise ValueError(f"{total} bytes cannot come from {len(body)}")
        ends = np.cumsum(sizes.astype(np.int64))
        return b"".join(
            zlib.decompress(body[int(end - size) : int(end)])
            for end, size in zip(ends, sizes, strict=True)
        )

    def _decode(self, data: bytes, is_raw: bool, at: int, word: np.dtype[Any], count: int) -> Array:
        head = self._bytes(data, is_raw, at + count * word.itemsize)
        if len(head) < at + count * word.itemsize:
            raise ValueError("an array is cut short")
        return np.frombuffer(head, word, count, at)

    @staticmethod
    def _bytes(data: bytes, is_raw: bool, count: int) -> bytes:
        """The first bytes of what the data stand for."""
        if is_raw:
            return data[:count]
        return base64.b64decode(data[: 4 * -(-count // 3)])[:count]
