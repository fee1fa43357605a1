"""Numbers in text through numpy's parser, bit for bit what `float` gives."""

from collections.abc import Sequence

import numpy as np

from farpoint._types import Array

COMMENTS = (b"#", b"//")


def parse_table(lines: Sequence[bytes], separator: str | None = None) -> Array:
    """(R, C) float64 of lines of C numbers; None separates by white space."""
    if not lines:
        return np.empty((0, 0))
    try:
        table = np.loadtxt(lines, comments=None, delimiter=separator, ndmin=2, encoding="latin1")
    except ValueError as error:
        for i, row in enumerate(split_cells(lines, separator)):
            for cell in row:
                if not is_number(cell):
                    text = cell.decode("utf-8", "replace")
                    raise ValueError(f"{text!r} of point {i} is not a number") from error
        raise
    if len(table) != len(lines):
        raise ValueError(f"expected {len(lines)} lines of numbers, got {len(table)}")
    return table


def split_cells(lines: Sequence[bytes], separator: str | None) -> list[list[bytes]]:
    """The cells of each line without blanks around them; ValueError unless the counts agree."""
    mark = separator.encode() if separator else None
    rows = [[cell.strip() for cell in line.split(mark)] for line in lines]
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"point {i} has {len(row)} columns, the first one {len(rows[0])}")
    return rows


def is_number(cell: bytes) -> bool:
    """Whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return b"_" not in cell


def content_lines(data: bytes) -> list[bytes]:
    """The lines that are not blank, without their ends."""
    return [line for line in data.splitlines() if line.strip()]
