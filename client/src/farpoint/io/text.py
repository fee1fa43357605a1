"""Text with one point per line: .xyz, .txt and .csv, with or without a line of names."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._arrays import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.records import AXES, axis_positions, columns_of

COMMENTS = ("#", "//")


@dataclass(frozen=True)
class TextSource:
    """The lines of the points, and those above them."""

    head: list[str]
    lines: list[str]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the lines as they were spelled, below the same head."""
        path.write_text("".join(f"{line}\n" for line in [*self.head, *self._chosen(rows)]), "utf-8")

    def _chosen(self, rows: Rows) -> list[str]:
        return [self.lines[row] for row in rows]


def read(path: Path) -> Cloud:
    """Reads text: float64 coordinates, and each further column as float64 or else as text.

    Columns are separated by a comma, a semicolon or white space. Names come from the first line
    or from a comment right above the points; without names the first three columns are x, y, z.
    """
    head, lines = _split_head(path.read_text("utf-8-sig").splitlines())
    if not lines:
        raise ValueError("0 points: no line holds numbers")
    separator = next((mark for mark in ",;" if mark in lines[0]), None)
    columns = _columns([line.split(separator) for line in lines])
    names = _names(head, separator, len(columns))
    axes = axis_positions(names)
    points = np.stack([_numbers(columns[i], AXES[n]) for n, i in enumerate(axes)], axis=1)
    others = {names[i]: _values(columns[i]) for i in range(len(columns)) if i not in axes}
    return Cloud(points, others, TextSource(head, lines))


def _split_head(lines: list[str]) -> tuple[list[str], list[str]]:
    """Comments and names above the points; then the points, without blank lines and comments."""
    first = next((i for i, line in enumerate(lines) if _is_point(line)), len(lines))
    points = [line for line in lines[first:] if line.strip() and not _is_comment(line)]
    return [line for line in lines[:first] if line.strip()], points


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENTS)


def _is_point(line: str) -> bool:
    words = line.replace(",", " ").replace(";", " ").split()
    if not words or _is_comment(line):
        return False
    try:
        float(words[0])
    except ValueError:
        return False
    return True


def _columns(rows: list[list[str]]) -> list[tuple[str, ...]]:
    width = len(rows[0])
    odd = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if odd is not None:
        raise ValueError(f"point {odd} has {len(rows[odd])} columns, the first one {width}")
    if width < 3:
        raise ValueError(f"expected three columns or more, got {width}")
    return list(zip(*rows, strict=True))


def _names(head: list[str], separator: str | None, width: int) -> list[str]:
    """Names from the line right above the points, where it gives one for every column."""
    last = head[-1] if head else ""
    names = [name.strip(" \t\"'") for name in last.lstrip("#/ \t").split(separator)]
    if len(names) == width and not (_is_comment(last) and not _has_axes(names)):
        return names
    if last and not _is_comment(last):
        raise ValueError(f"{len(names)} names for {width} columns: {last!r}")
    return [*AXES, *(f"column_{i}" for i in range(3, width))]


def _has_axes(names: list[str]) -> bool:
    return set(AXES) <= {name.lower() for name in names}


def _numbers(column: tuple[str, ...], name: str) -> Array:
    try:
        return np.array(column, np.float64)
    except ValueError as error:
        raise ValueError(f"the column {name} holds something that is no number: {error}") from error


def _values(column: tuple[str, ...]) -> Array:
    try:
        return np.array(column, np.float64)
    except ValueError:
        return np.array([value.strip() for value in column])


def write(path: Path, points: Array, attributes: dict[str, Array]) -> None:
    """Writes columns with as many digits as they need; commas and names in a .csv, else spaces."""
    columns = columns_of(points, attributes)
    comma = path.suffix.lower() == ".csv"
    # numpy's own conversion gives the fewest digits that read back as the same number.
    rows = zip(*(column.astype(str) for column in columns.values()), strict=True)
    head = [",".join(columns)] if comma else []
    lines = head + [("," if comma else " ").join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
