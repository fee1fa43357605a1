"""How a text of points is spelled: its head, its names, its separator and its decimal point."""

import re
from dataclasses import dataclass

from farpoint.io.formats.text.lines import Lines
from farpoint.io.formats.text.table import COMMENTS
from farpoint.io.records import AXES, axis_positions

_DECIMAL_COMMA = re.compile(rb"[-+]?\d*,\d+([eE][-+]?\d+)?|[-+]?\d+,?")
# PTS of laser scanners: intensity, or intensity and color, or color.
_PTS_NAMES = {
    4: ("intensity",),
    6: ("red", "green", "blue"),
    7: ("intensity", "red", "green", "blue"),
}


@dataclass(frozen=True)
class Dialect:
    """The spelling of one file.

    Attributes:
        head: lines above the points, without blank ones and without the count.
        count: the number of points that a line above them announces; None without one.
        first: which line holds the first point.
        separator: byte between the columns; None is white space.
        point: byte of the decimal point.
    """

    head: list[bytes]
    count: int | None
    first: int
    separator: int | None
    point: int

    def names(self, width: int, is_pts: bool = False) -> list[str]:
        """Names from the line right above the points, where it gives one for every column."""
        last = self.head[-1].decode("utf-8", "replace") if self.head else ""
        commented = bool(self.head) and self.head[-1].lstrip().startswith(COMMENTS)
        between = None if self.separator is None else chr(self.separator)
        names = [name.strip(" \t\r\"'") for name in last.lstrip("#/ \t").split(between)]
        if len(names) == width and not (commented and not _has_axes(names)):
            return names
        if last and not commented:
            raise ValueError(f"{len(names)} names for {width} columns: {last!r}")
        rest = _PTS_NAMES.get(width) if is_pts else None
        return [*AXES, *(rest or (f"column_{i}" for i in range(3, width)))]


def find_dialect(lines: Lines) -> Dialect:
    """The spelling of a text, judged by what stands above its first point and by that point.

    Raises:
        ValueError: no line holds numbers.
    """
    head: list[bytes] = []
    count = None
    for i in range(len(lines)):
        line = lines[i]
        if not line.strip():
            continue
        if count is None and line.strip().isdigit() and not any(map(_is_words, head)):
            count = int(line)
        elif _is_point(line):
            separator, point = _separation(line)
            return Dialect(head, count, i, separator, point)
        else:
            head.append(line)
    raise ValueError("0 points: no line holds numbers")


def _is_words(line: bytes) -> bool:
    return not line.lstrip().startswith(COMMENTS)


def _is_point(line: bytes) -> bool:
    words = re.split(rb"[\s,;]+", line.strip())
    if line.lstrip().startswith(COMMENTS):
        return False
    try:
        float(words[0])
    except ValueError:
        return False
    return True


def _separation(line: bytes) -> tuple[int | None, int]:
    """Separator and decimal point of the first point."""
    if b";" in line:
        return ord(";"), ord("," if b"," in line else ".")
    words = line.split()
    # "1, 2, 3" has its commas behind the numbers, "1,5 2,5 3,5" within them.
    behind = any(word.endswith(b",") for word in words)
    if (
        len(words) >= 3
        and b"," in line
        and not behind
        and all(map(_DECIMAL_COMMA.fullmatch, words[:3]))
    ):
        return None, ord(",")
    return (ord(",") if b"," in line else None), ord(".")


def _has_axes(names: list[str]) -> bool:
    try:
        axis_positions(names)
    except ValueError:
        return False
    return True
