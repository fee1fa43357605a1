"""Text with one point per line: .xyz, .txt, .csv and .pts, with or without a line of names."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._adapters import axis_positions
from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import (
    EXACT,
    decode,
    is_number,
    parse_table,
    split_cells,
    split_lines,
    whole_numbers,
)
from farpoint.io.records import columns_of, spelled
from farpoint.packed import AXES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENTS = (b"#", b"//")
_DECIMAL_COMMA = re.compile(rb"[-+]?\d*,\d+([eE][-+]?\d+)?|[-+]?\d+,?")
# PTS of laser scanners: intensity, or intensity and color, or color.
_PTS_NAMES = {
    4: ("intensity",),
    6: ("red", "green", "blue"),
    7: ("intensity", "red", "green", "blue"),
}


@dataclass(frozen=True)
class TextSource:
    """What stands above the points, the place of their number in it, and their lines."""

    suffix: str
    """Columns have other meanings, or names, in files of another."""
    head: list[bytes]
    count_at: int | None
    lines: list[bytes]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the lines as they were spelled, below the same head."""
        head = list(self.head)
        if self.count_at is not None:
            head[self.count_at] = re.sub(rb"\d+", b"%d" % len(rows), head[self.count_at])
        path.write_bytes(b"".join(head) + b"".join(self.lines[row] for row in rows))


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads text: float64 coordinates, and each further column as numbers or else as text.

    Columns are separated by a comma, a semicolon or white space; behind a semicolon or white space
    numbers may have decimal commas. Names come from the first line or from a comment right above
    the points; without names the first three columns are x, y, z. A line with nothing but the
    number of points may come first.
    """
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4096]:
        raise ValueError("expected text in UTF-8 or ASCII, found zero bytes or UTF-16")
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b""
    lines = split_lines(data.removeprefix(mark))
    count_at = _count_place(lines)
    begin = _first_point(lines, 0 if count_at is None else count_at + 1)
    head, filled = lines[:begin], [line for line in lines[begin:] if line.strip()]
    points = [line for line in filled if not _is_comment(line)]
    if count_at is not None and int(lines[count_at]) != len(points):
        raise ValueError(f"{int(lines[count_at])} points announced, {len(points)} found")
    suffix = (options.format or path.suffix).lower()
    columns = _named_columns(suffix, options, head, points)
    axes = axis_positions(list(columns))
    names = list(columns)
    coordinates = [_numbers(names[i], columns.pop(names[i])) for i in axes]
    comments = len(filled) - len(points)
    notes = (f"left out: {comments} comments below the first point",) if comments else ()
    source = TextSource(suffix, [mark, *head], None if count_at is None else count_at + 1, points)
    return Cloud(np.stack(coordinates, axis=1), columns, source, notes=notes)


def _named_columns(
    suffix: str, options: ReadOptions, head: list[bytes], points: list[bytes]
) -> dict[str, Array]:
    above = [line for line in head if line.strip()]
    separator = _separator(_unquoted(points[0]), above[-1] if above else b"")
    has_commas = separator != "," and any(b"," in line for line in points)
    columns = _columns(points, separator, has_commas)
    if len(columns) < 3:
        raise ValueError(f"expected three columns or more, got {len(columns)}")
    names = list(options.columns or _names(above, len(columns), separator, suffix == ".pts"))
    if len(names) != len(columns):
        raise ValueError(f"{len(names)} columns are named, the points have {len(columns)}")
    names = [name or f"column_{i}" for i, name in enumerate(names)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two columns are named {twice}: name all, as in --columns x,y,z,a,b")
    return dict(zip(names, columns, strict=True))


def _count_place(lines: list[bytes]) -> int | None:
    """The place of a line with nothing but the number of points, below comments at most."""
    filled = (i for i, line in enumerate(lines) if line.strip() and not _is_comment(line))
    first = next(filled, None)
    return first if first is not None and lines[first].strip().isdigit() else None


def _first_point(lines: list[bytes], begin: int) -> int:
    """The first line that begins with a number or is below the names of axes, or has three."""
    above, fallback = b"", None
    for i in range(begin, len(lines)):
        if lines[i].strip() and not _is_comment(lines[i]):
            cells = re.split(r"[\s,;]+", decode(_unquoted(lines[i])).strip())
            has_three = sum(map(is_number, cells)) >= 3
            is_below = has_three if _is_comment(above) else bool(above)
            if is_number(cells[0]) or (is_below and _names_axes(above)):
                return i
            fallback = i if has_three and fallback is None else fallback
        above = lines[i] if lines[i].strip() else above
    if fallback is None:
        first = decode(next((line for line in lines if line.strip()), b"")).strip()[:80]
        raise ValueError(f"0 points: no line has three numbers, the first line is {first!r}")
    return fallback


def _is_comment(line: bytes) -> bool:
    return line.lstrip().startswith(_COMMENTS)


def _unquoted(line: bytes) -> bytes:
    """The line with what stands in quotation marks as one word."""
    return re.sub(rb'"([^"]*)"', lambda found: re.sub(rb"[\s,;]", b"_", found[1]), line)


def _separator(line: bytes, above: bytes) -> str | None:
    """What separates the first point, below this line; None is white space."""
    tabs = above.strip().split(b"\t")
    if len(tabs) >= 3 and all(tabs) and line.count(b"\t") == len(tabs) - 1:
        return "\t"
    if b";" in line:
        return ";"
    words = line.split()
    # "1, 2, 3" has its commas behind the numbers, "1,5 2,5 3,5" within them.
    behind = any(word.endswith(b",") for word in words)
    has_decimals = sum(map(bool, map(_DECIMAL_COMMA.fullmatch, words))) >= 3
    return "," if b"," in line and (behind or not has_decimals) else None


def _columns(lines: list[bytes], separator: str | None, has_commas: bool) -> list[Array]:
    """Each column as numbers, or as text where not every cell is one."""
    try:
        table = parse_table(
            [line.replace(b",", b".") for line in lines] if has_commas else lines, separator
        )
    except ValueError:
        rows = split_cells(lines, separator)
        return [_numbers_or_text(column, has_commas) for column in zip(*rows, strict=True)]
    columns = list(table.T)
    for i in np.flatnonzero((abs(table) > EXACT).any(axis=0)):
        cells = [row[i] for row in split_cells(lines, separator)]
        columns[i] = _numbers_or_text(cells, has_commas)
    return columns


def _numbers_or_text(cells: Sequence[str], has_commas: bool) -> Array:
    words = [cell.replace(",", ".") for cell in cells] if has_commas else cells
    if not all(map(is_number, words)):
        return np.array(cells)
    column = np.array([float(word) for word in words])
    exact = whole_numbers(words) if (abs(column) > EXACT).any() else None
    return column if exact is None else exact


def _names(head: list[bytes], width: int, separator: str | None, is_pts: bool) -> list[str]:
    """Names from the line right above the points, where it gives one for every column."""
    last = head[-1] if head else b""
    commented = _is_comment(last)
    names = _split_names(last, separator)
    if last and len(names) == width and not (commented and not _has_axes(names)):
        return names
    if last and not commented and not last.strip().isdigit():
        raise ValueError(f"{len(names)} names for {width} columns: {decode(last).strip()!r}")
    rest = _PTS_NAMES.get(width) if is_pts else None
    return [*AXES, *(rest or (f"column_{i}" for i in range(3, width)))]


def _split_names(line: bytes, separator: str | None) -> list[str]:
    cells = split_cells([line.lstrip(b"#/ \t")], separator)[0]
    return [name.strip(" \t\r\"'") for name in cells]


def _names_axes(line: bytes) -> bool:
    return any(_has_axes(_split_names(line, separator)) for separator in (",", ";", "\t", None))


def _has_axes(names: list[str]) -> bool:
    try:
        axis_positions(names)
    except ValueError:
        return False
    return True


def _numbers(axis: str, column: Array) -> Array:
    if column.dtype.kind not in "fiu":
        row = next(i for i, cell in enumerate(column.tolist()) if not is_number(cell))
        raise ValueError(
            f"the column {axis} must hold numbers, got {str(column[row])!r} at point {row}"
        )
    return column


def write(path: Path, cloud: Cloud) -> list[str]:
    """Writes columns with as many digits as they need; commas and names in a .csv, else spaces.

    Returns:
        The names of columns that are left out: all but intensity and color in a .pts, and words
        with blanks but in a .csv.
    """
    suffix = path.suffix.lower()
    found = columns_of(cloud.points, cloud.attributes)
    columns = {name: spelled(column) for name, column in found.items()}
    if suffix == ".pts":
        chosen = [n for n in ("intensity", "red", "green", "blue") if n in columns]
        wanted = next((n for n in reversed(_PTS_NAMES.values()) if set(n) <= set(chosen)), ())
        columns = {name: columns[name] for name in (*AXES, *wanted)}
    elif suffix != ".csv":
        columns = {n: c for n, c in columns.items() if all(len(cell.split()) == 1 for cell in c)}
    head = {".csv": [list(columns)], ".pts": [[str(len(cloud))]]}.get(suffix, [])
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="," if suffix == ".csv" else " ", lineterminator="\n")
        writer.writerows([*head, *zip(*columns.values(), strict=True)])
    return [name for name in found if name not in columns]
