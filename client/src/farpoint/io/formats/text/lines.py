"""Lines and tokens of a text as positions in its bytes, found with array operations."""

from dataclasses import dataclass

import numpy as np

from farpoint._types import Array

NEWLINE = 10


@dataclass(frozen=True)
class Lines:
    """Lines of a text; none has its line end.

    Attributes:
        text: (bytes,) uint8.
        begins: (L,) int64.
        ends: (L,) int64.
    """

    text: Array
    begins: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, i: int) -> bytes:
        return bytes(self.text[self.begins[i] : self.ends[i]].tobytes()).rstrip(b"\r")

    def select(self, which: Array | slice) -> "Lines":
        """Some of the lines, by mask, position or range."""
        return Lines(self.text, self.begins[which], self.ends[which])


def split_lines(text: Array) -> Lines:
    """The lines of a text that ends them with \\n or \\r\\n, or with \\r alone."""
    mark = NEWLINE if (text == NEWLINE).any() else 13
    ends = np.flatnonzero(text == mark)
    begins = np.concatenate([[0], ends + 1])
    ends = np.append(ends, len(text))
    if begins[-1] == ends[-1]:
        begins, ends = begins[:-1], ends[:-1]
    return Lines(text, begins, ends)


@dataclass(frozen=True)
class Tokens:
    """Where the words of a text begin and end, in its order."""

    begins: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.begins)


# Blocks that stay in the cache; about as many bytes as a million numbers need per core.
_BLOCK = 1 << 19


def find_tokens(text: Array, begin: int, end: int, separator: int | None = None) -> Tokens:
    """The words between blanks, line ends and `separator`, within a range of the text."""
    edges = []
    before = np.True_
    for at in range(begin, end, _BLOCK):
        part = text[at : min(at + _BLOCK, end)]
        blank = part <= 32
        if separator is not None:
            blank |= part == separator
        turns = np.empty(len(blank), bool)
        turns[0] = blank[0] != before
        np.not_equal(blank[1:], blank[:-1], out=turns[1:])
        before = blank[-1]
        found = np.flatnonzero(turns)
        found += at
        edges.append(found)
    if not before:
        edges.append(np.array([end]))
    joined = np.concatenate(edges) if edges else np.empty(0, np.int64)
    return Tokens(joined[::2], joined[1::2])
