"""Numbers in text through numpy's parser, bit for bit what `float` gives, and text in bytes."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from farpoint._types import Array

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)")
# float64 holds every whole number up to here.
EXACT = 1 << 53


def decode(data: bytes) -> str:
    """Text as UTF-8, or else as Latin-1, which any bytes are."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def head_lines(data: bytes) -> Iterator[bytes]:
    """The lines from the beginning, with their ends of any kind."""
    return (found[0] for found in _LINE.finditer(data))


def split_lines(data: bytes) -> list[bytes]:
    """The lines with their ends; the last one gets that of the first."""
    lines = data.splitlines(keepends=True)
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        lines[-1] += lines[0][len(lines[0].rstrip(b"\r\n")) :] or b"\n"
    return lines


def content_lines(data: bytes) -> list[bytes]:
    """The lines that are not blank, with their ends."""
    return [line for line in split_lines(data) if line.strip()]


def parse_table(
    lines: Sequence[bytes],
    separator: str | None = None,
    names: Sequence[str] = (),
    points: Sequence[int] = (),
) -> Array:
    """(R, C) float64 of lines of C numbers; None separates by white space.

    A ValueError names point and column: by default those in place i have the number i.
    """
    if not lines:
        return np.empty((0, len(names)))
    try:
        table = np.loadtxt(lines, comments=None, delimiter=separator, ndmin=2, encoding="latin1")
    except ValueError as error:
        for i, row in enumerate(split_cells(lines, separator)):
            for name, cell in zip_longest(names, row):
                if cell is not None and not is_number(cell):
                    where = f"{cell!r} of point {points[i] if points else i}"
                    column = f", column {name}" if name else ""
                    raise ValueError(f"{where} is not a number{column}") from error
        raise
    if len(table) != len(lines):
        raise ValueError(f"expected {len(lines)} lines of numbers, got {len(table)}")
    return table


def parse_columns(
    lines: Sequence[bytes],
    types: Sequence[tuple[str, np.dtype[np.generic]]],
    points: Sequence[int] = (),
) -> list[Array]:
    """The columns of lines between white space, each in the type that a header declares.

    Args:
        lines: one for each row.
        types: name and type of each column.
        points: the number of each row in messages; by default its place.

    Raises:
        ValueError: a cell is no number or not one of its column's type, with column and row.
    """
    table = parse_table(lines, None, [name for name, _ in types], points)
    if table.shape[1] != len(types):
        raise ValueError(f"point 0 has {table.shape[1]} values, expected {len(types)}")
    columns = list(table.T)
    for i, (name, dtype) in enumerate(types):
        if dtype.kind in "iu" and dtype.itemsize == 8:  # float64 may not hold them
            columns[i] = np.array([_number(line.split()[i]) for line in lines], object)
        fits = _fits(columns[i], dtype, lines, i)
        if not fits.all():
            at = int(np.argmin(fits))
            cell, point = decode(lines[at].split()[i]), points[at] if points else at
            raise ValueError(f"{name} of point {point} is {cell}, expected {dtype.name}")
        columns[i] = columns[i].astype(dtype)
    return columns


def _fits(
    column: Array, dtype: np.dtype[np.generic], lines: Sequence[bytes], i: int
) -> NDArray[np.bool_]:
    """Whether the type holds each number; infinity only where it is spelled so."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        with np.errstate(invalid="ignore"):
            in_range = (column >= limits.min) & (column <= limits.max)
            return np.asarray(in_range & (column % 1 == 0), np.bool_)
    fits = np.ones(len(column), np.bool_)
    with np.errstate(over="ignore"):
        infinite = np.flatnonzero(np.isinf(column.astype(dtype)))
    fits[infinite] = [b"inf" in lines[row].split()[i].lower() for row in infinite.tolist()]
    return fits


def _number(cell: bytes) -> int | float:
    try:
        return int(cell)
    except ValueError:
        return float(cell)


def whole_numbers(cells: Sequence[str]) -> Array | None:
    """Whole numbers that float64 may not hold, as int64 or uint64; None for others."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return None
    limits = (np.iinfo(np.int64), np.iinfo(np.uint64))
    fits = (n.dtype for n in limits if n.min <= min(numbers) and max(numbers) <= n.max)
    dtype = next(fits, None)
    return None if dtype is None else np.array(numbers, dtype)


def split_cells(lines: Sequence[bytes], separator: str | None) -> list[list[str]]:
    """The cells of each line without blanks around them; ValueError unless the counts agree."""
    if separator:
        texts = map(decode, lines)
        rows = list(csv.reader(texts, delimiter=separator, skipinitialspace=True))
    else:
        rows = [[*map(decode, line.split())] for line in lines]
    if len(rows) != len(lines):
        raise ValueError("a quotation mark is not closed on its line")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"point {i} has {len(row)} columns, the first one {len(rows[0])}")
    return [[cell.strip() for cell in row] for row in rows]


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell
