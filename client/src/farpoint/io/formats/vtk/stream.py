"""A legacy VTK file, read from its head on: lines of words, and blocks of numbers."""

import numpy as np

from farpoint._types import Array
from farpoint.io.formats.text.decimal import parse_decimals
from farpoint.io.formats.text.lines import find_tokens
from farpoint.io.formats.vtk.arrays import TYPES


class LegacyStream:
    """Behind the five lines of the head.

    Attributes:
        version: as in "# vtk DataFile Version 3.0".
        binary: whether numbers are big-endian bytes; else they are text.
        dataset: the kind of geometry, for example POLYDATA.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        first = self._line()
        if not first.startswith("# vtk DataFile Version"):
            raise ValueError("expected '# vtk DataFile Version' in the first line")
        major, _, minor = first.split()[-1].partition(".")
        self.version = (int(major), int(minor or 0))
        self._line()  # a title
        encoding = self._line().strip().upper()
        if encoding not in ("ASCII", "BINARY"):
            raise ValueError(f"expected ASCII or BINARY in the third line, got {encoding[:20]!r}")
        self.binary = encoding == "BINARY"
        words = self.words()
        self.dataset = words[1].upper() if len(words) > 1 else ""

    def words(self) -> list[str]:
        """Those of the next line that has any; none at the end of the file."""
        while self._at < len(self._data):
            if words := self._line().split():
                return words
        return []

    def values(self, count: int, kind: str) -> Array:
        """The next numbers."""
        if kind.lower() not in TYPES:
            raise ValueError(f"unknown type {kind!r}")
        dtype = np.dtype(TYPES[kind.lower()]).newbyteorder(">")
        # Before room is made: a number takes two characters at least.
        if (
            count < 0
            or count * (dtype.itemsize if self.binary else 2) > len(self._data) - self._at + 1
        ):
            raise ValueError(f"{count} numbers of type {kind} announced, fewer are there")
        if not self.binary:
            return self._numbers(count).astype(TYPES[kind.lower()])
        found = np.frombuffer(self._data, dtype, count, self._at)
        self._at += count * dtype.itemsize
        return found

    def _numbers(self, count: int) -> Array:
        """Numbers of text, which may be broken into lines anywhere."""
        text = np.frombuffer(self._data, np.uint8)
        end = min(self._at + 32 * count + 64, len(text))
        tokens = find_tokens(text, self._at, end)
        while len(tokens) <= count and end < len(text):
            end = min(2 * end, len(text))
            tokens = find_tokens(text, self._at, end)
        if len(tokens) < count:
            raise ValueError(f"{count} numbers announced, {len(tokens)} found")
        if count:
            self._at = int(tokens.ends[count - 1])
        return parse_decimals(text, tokens.begins[:count], tokens.ends[:count])

    def skip_metadata(self) -> None:
        """METADATA goes on to an empty line."""
        while self._at < len(self._data) and self._line().strip():
            pass

    def skip_lookup_table(self) -> None:
        """The line that may stand between SCALARS and its numbers."""
        before = self._at
        if self.words()[:1] != ["LOOKUP_TABLE"]:
            self._at = before

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        end = len(self._data) if end < 0 else end
        line = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return line.rstrip("\r")
