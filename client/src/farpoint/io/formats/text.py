"""Text with one point per line: .xyz, .txt, .csv and .pts, with or without a line of names."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import COMMENTS, content_lines, is_number, parse_table, split_cells
from farpoint.io.records import AXES, axis_positions, columns_of

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DECIMAL_COMMA = re.compile(rb"[-+]?\d*,\d+([eE][-+]?\d+)?|[-+]?\d+,?")
# PTS of laser scanners: intensity, or intensity and color, or color.
_PTS_NAMES = {
    4: ("intensity",),
    6: ("red", "green", "blue"),
    7: ("intensity", "red", "green", "blue"),
}


@dataclass(frozen=True)
class TextSource:
    """The lines of the points, and those above them but for a count."""

    head: list[bytes]
    lines: list[bytes]
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
    data = path.read_bytes().removeprefix(_BYTE_ORDER_MARK)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4096]:
        raise ValueError("expected text in UTF-8 or ASCII, found zero bytes or UTF-16")
    head, count, lines = _split_head(content_lines(data))
    separator, has_commas = _separation(lines[0])
    spelled = [line.replace(b",", b".") for line in lines] if has_commas else lines
    table, columns = _columns(spelled, separator)
    if len(columns) < 3:
        raise ValueError(f"expected three columns or more, got {len(columns)}")
    if count is not None and count != len(lines):
        raise ValueError(f"{count} points announced, {len(lines)} found")
    is_pts = path.suffix.lower() == ".pts"
    names = list(options.columns or _names(head, len(columns), separator, is_pts))
    if len(names) != len(columns):
        raise ValueError(f"{len(names)} columns are named, the points have {len(columns)}")
    axes = axis_positions(names)
    for axis, i in zip(AXES, axes, strict=True):
        _check_numbers(columns[i], axis)
    if table is not None and axes == [0, 1, 2]:
        points = table[:, :3]
    else:
        points = np.stack([columns[i] for i in axes], axis=1)
    others = {names[i]: columns[i] for i in range(len(names)) if i not in axes}
    return Cloud(points, others, TextSource(head, lines, count is not None))


def _split_head(lines: list[bytes]) -> tuple[list[bytes], int | None, list[bytes]]:
    """The lines above the first point, the count among them, and the lines of points."""
    head: list[bytes] = []
    count = None
    for i, line in enumerate(lines):
        if count is None and line.strip().isdigit() and all(map(_is_comment, head)):
            count = int(line)
        elif not _is_comment(line) and is_number(re.split(rb"[\s,;]+", line.strip())[0]):
            return head, count, [one for one in lines[i:] if not _is_comment(one)]
        else:
            head.append(line)
    raise ValueError("0 points: no line holds numbers")


def _is_comment(line: bytes) -> bool:
    return line.lstrip().startswith(COMMENTS)


def _separation(line: bytes) -> tuple[str | None, bool]:
    """The separator of the first point, None for white space, and whether decimals have commas."""
    if b";" in line:
        return ";", b"," in line
    words = line.split()
    # "1, 2, 3" has its commas behind the numbers, "1,5 2,5 3,5" within them.
    behind = any(word.endswith(b",") for word in words)
    if b"," not in line:
        return None, False
    if len(words) >= 3 and not behind and all(map(_DECIMAL_COMMA.fullmatch, words[:3])):
        return None, True
    return ",", False


def _columns(lines: list[bytes], separator: str | None) -> tuple[Array | None, list[Array]]:
    """All columns as one table where each cell is a number; a column with others is text."""
    try:
        table = parse_table(lines, separator)
        return table, list(table.T)
    except ValueError:
        columns = zip(*split_cells(lines, separator), strict=True)
        return None, [_numbers_or_text(column) for column in columns]


def _numbers_or_text(cells: tuple[bytes, ...]) -> Array:
    if all(map(is_number, cells)):
        return np.array(cells, np.float64)
    return np.array([cell.decode("utf-8", "replace") for cell in cells])


def _names(head: list[bytes], width: int, separator: str | None, is_pts: bool) -> list[str]:
    """Names from the line right above the points, where it gives one for every column."""
    last = head[-1].decode("utf-8", "replace") if head else ""
    commented = bool(head) and _is_comment(head[-1])
    names = [name.strip(" \t\r\"'") for name in last.lstrip("#/ \t").split(separator)]
    if len(names) == width and not (commented and not _has_axes(names)):
        return names
    if last and not commented:
        raise ValueError(f"{len(names)} names for {width} columns: {last!r}")
    rest = _PTS_NAMES.get(width) if is_pts else None
    return [*AXES, *(rest or (f"column_{i}" for i in range(3, width)))]


def _has_axes(names: list[str]) -> bool:
    try:
        axis_positions(names)
    except ValueError:
        return False
    return True


def _check_numbers(column: Array, axis: str) -> None:
    if column.dtype.kind != "f":
        row = next(i for i, cell in enumerate(column.tolist()) if not is_number(cell.encode()))
        raise ValueError(
            f"the column {axis} must hold numbers, got {str(column[row])!r} at point {row}"
        )


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
