"""The slower way through a text: cells that are empty, or hold blanks within their separators."""

import re
from collections.abc import Iterator

import numpy as np

from farpoint.io.formats.text.lines import Lines
from farpoint.io.formats.text.table import COMMENTS, Table


def split_cells(lines: Lines, separator: int | None) -> Table:
    """The table that lines hold, cell by cell.

    Raises:
        ValueError: lines differ in their number of columns.
    """
    kept: list[int] = []
    cells: list[list[tuple[int, int]]] = []
    for i in range(len(lines)):
        line = lines[i]
        if line.strip() and not line.lstrip().startswith(COMMENTS):
            kept.append(i)
            cells.append(list(_cells(line, separator, int(lines.begins[i]))))
    width = len(cells[0])
    odd = next((i for i, row in enumerate(cells) if len(row) != width), None)
    if odd is not None:
        raise ValueError(f"point {odd} has {len(cells[odd])} columns, the first one {width}")
    positions = np.array(cells, np.int64)
    return Table(lines.select(np.array(kept)), positions[..., 0], positions[..., 1])


def _cells(line: bytes, separator: int | None, at: int) -> Iterator[tuple[int, int]]:
    """Where the cells of a line begin and end in its text, without blanks around them."""
    if separator is None:
        yield from ((at + word.start(), at + word.end()) for word in re.finditer(rb"\S+", line))
        return
    for cell in line.split(bytes([separator])):
        begin = at + len(cell) - len(cell.lstrip())
        yield begin, begin + len(cell.strip())
        at += len(cell) + 1
