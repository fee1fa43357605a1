"""Text with one point per line: .xyz, .txt, .csv and .pts, with or without a line of names."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.formats.text.decimal import NotANumberError
from farpoint.io.formats.text.dialect import Dialect, find_dialect
from farpoint.io.formats.text.lines import Lines, split_lines
from farpoint.io.formats.text.loose import split_cells
from farpoint.io.formats.text.table import Table, read_table
from farpoint.io.options import ReadOptions
from farpoint.io.records import AXES, axis_positions, columns_of

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextSource:
    """The lines of the points, and those above them but for a count."""

    head: list[bytes]
    lines: Lines
    has_count: bool

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the lines as they were spelled, below the same head."""
        count = [str(len(rows)).encode()] if self.has_count else []
        chosen = [*count, *self.head, *(self.lines[row] for row in rows)]
        path.write_bytes(b"".join(line + b"\n" for line in chosen))


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads text: float64 coordinates, and each further column as float64 or else as text.

    Columns are separated by a comma, a semicolon or white space; behind a semicolon or white space
    numbers may have decimal commas. Names come from the first line or from a comment right above
    the points; without names the first three columns are x, y, z. A line with nothing but the
    number of points may come first.
    """
    text = np.fromfile(path, np.uint8)
    if text[:3].tobytes() == BYTE_ORDER_MARK:
        text = text[3:]
    if text[:2].tobytes() in (b"\xff\xfe", b"\xfe\xff") or (text[:4096] == 0).any():
        raise ValueError("expected text in UTF-8 or ASCII, found zero bytes or UTF-16")
    lines = split_lines(text)
    dialect = find_dialect(lines)
    body = lines.select(slice(dialect.first, None))
    table = read_table(body, dialect.separator) or split_cells(body, dialect.separator)
    if table.width < 3:
        raise ValueError(f"expected three columns or more, got {table.width}")
    if dialect.count is not None and dialect.count != len(table.lines):
        raise ValueError(f"{dialect.count} points announced, {len(table.lines)} found")
    names = list(options.columns or dialect.names(table.width, path.suffix.lower() == ".pts"))
    if len(names) != table.width:
        raise ValueError(f"{len(names)} columns are named, the points have {table.width}")
    points, attributes = _split(table, names, dialect)
    return Cloud(
        points, attributes, TextSource(dialect.head, table.lines, dialect.count is not None)
    )


def _split(table: Table, names: list[str], dialect: Dialect) -> tuple[Array, dict[str, Array]]:
    axes = axis_positions(names)
    try:
        values = table.numbers(dialect.point)
        columns = list(values.T)
        points = values[:, :3] if axes == [0, 1, 2] else values[:, axes]
    except NotANumberError:
        columns = [table.column(i, dialect.point) for i in range(table.width)]
        for axis, i in zip(AXES, axes, strict=True):
            _check_numbers(columns[i], axis)
        points = np.stack([columns[i] for i in axes], axis=1)
    return points, {names[i]: columns[i] for i in range(len(names)) if i not in axes}


def _check_numbers(column: Array, axis: str) -> None:
    if column.dtype.kind == "f":
        return
    row = next(i for i, cell in enumerate(column.tolist()) if not _is_number(cell))
    cell = str(column[row])
    raise ValueError(
        f"the column {axis} holds something that is no number: {cell!r} at point {row}"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def write(path: Path, cloud: Cloud) -> None:
    """Writes columns with as many digits as they need; commas and names in a .csv, else spaces."""
    columns = columns_of(cloud.points, cloud.attributes)
    comma = path.suffix.lower() == ".csv"
    # numpy's own conversion gives the fewest digits that read back as the same number.
    rows = zip(*(column.astype(str) for column in columns.values()), strict=True)
    head = [",".join(columns)] if comma else []
    if path.suffix.lower() == ".pts":
        head = [str(len(cloud))]
    lines = head + [("," if comma else " ").join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
