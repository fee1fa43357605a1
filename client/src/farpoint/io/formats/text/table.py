"""A table of tokens: the same number in every line, found and checked with array operations."""

from dataclasses import dataclass

import numpy as np

from farpoint._types import Array
from farpoint.io.formats.text.decimal import NotANumberError, parse_decimals
from farpoint.io.formats.text.lines import Lines, Tokens, find_tokens

COMMENTS = (b"#", b"//")


@dataclass(frozen=True)
class Table:
    """Tokens in R rows and C columns.

    Attributes:
        lines: the R lines.
        begins: (R, C) int64 positions in the text of the lines.
        ends: (R, C) int64.
    """

    lines: Lines
    begins: Array
    ends: Array

    @property
    def width(self) -> int:
        """C."""
        return int(self.begins.shape[1])

    def numbers(self, point: int = 46) -> Array:
        """All cells as (R, C) float64; `point` is the character of the decimal point.

        Raises:
            NotANumberError: for the first cell that is none.
        """
        text = self.lines.text if point == 46 else _with_point(self.lines.text, point)
        values = parse_decimals(text, self.begins.reshape(-1), self.ends.reshape(-1))
        return values.reshape(self.begins.shape)

    def column(self, i: int, point: int = 46) -> Array:
        """A column as float64 (R,), or as text where a cell is no number."""
        text = self.lines.text if point == 46 else _with_point(self.lines.text, point)
        begins, ends = self.begins[:, i], self.ends[:, i]
        try:
            return parse_decimals(text, np.ascontiguousarray(begins), np.ascontiguousarray(ends))
        except NotANumberError:
            raw = self.lines.text
            cells = zip(begins.tolist(), ends.tolist(), strict=True)
            return np.array([raw[b:e].tobytes().decode("utf-8", "replace") for b, e in cells])


def _with_point(text: Array, point: int) -> Array:
    return np.where(text == point, np.uint8(46), text)


def read_table(lines: Lines, separator: int | None) -> Table | None:
    """The table that lines hold; blank lines and comments are left out.

    Args:
        lines: in the order of their text.
        separator: a byte that stands once between two cells; None for blanks alone.

    Returns:
        None where lines differ in their number of words: cells that are empty, or hold blanks.
    """
    if not len(lines):
        return None
    tokens = find_tokens(lines.text, int(lines.begins[0]), int(lines.ends[-1]), separator)
    table = _regular(lines, tokens)
    if table is None:
        table = _filtered(lines, tokens)
    if table is None or separator is None or _separators_fit(table, separator):
        return table
    return None


def _regular(lines: Lines, tokens: Tokens) -> Table | None:
    """The table where every line has the same number of tokens, and none is a comment."""
    if not len(tokens) or len(tokens) % len(lines):
        return None
    begins, ends = tokens.begins.reshape(len(lines), -1), tokens.ends.reshape(len(lines), -1)
    first = lines.text[begins[:, 0]]
    if (first == 35).any() or (first == 47).any():
        return None
    if (begins[:, 0] < lines.begins).any() or (ends[:, -1] > lines.ends).any():
        return None
    return Table(lines, begins, ends)


def _filtered(lines: Lines, tokens: Tokens) -> Table | None:
    """The table without blank lines and comments, where the others have as many tokens."""
    # Which of the tokens is the first of each line.
    first = np.searchsorted(tokens.begins, lines.begins)
    count = np.diff(np.append(first, len(tokens)))
    kept = count > 0
    kept &= ~_are_comments(lines, tokens.begins, first, kept)
    if not kept.any() or (width := int(count[kept][0])) < 1 or (count[kept] != width).any():
        return None
    cells = np.repeat(kept, count)
    begins, ends = tokens.begins[cells], tokens.ends[cells]
    return Table(lines.select(kept), begins.reshape(-1, width), ends.reshape(-1, width))


def _are_comments(lines: Lines, begins: Array, first: Array, kept: Array) -> Array:
    """Which lines begin with a mark of comments."""
    found = np.zeros(len(lines), bool)
    at = begins[first[kept]]
    second = lines.text[np.minimum(at + 1, len(lines.text) - 1)]
    found[kept] = (lines.text[at] == 35) | ((lines.text[at] == 47) & (second == 47))
    return found


def _separators_fit(table: Table, separator: int) -> bool:
    """Whether one separator stands between neighboring cells, and none behind the last."""
    text = table.lines.text
    low, high = int(table.lines.begins[0]), int(table.lines.ends[-1])
    at = np.flatnonzero(text[low:high] == separator) + low
    rows, width = table.begins.shape
    if len(at) != rows * (width - 1):
        return False  # comments with separators are rare enough to take the slower way
    between = at.reshape(rows, width - 1)
    return bool((between >= table.ends[:, :-1]).all() and (between < table.begins[:, 1:]).all())
