"""`Cloud`: coordinates and attributes read from a file, whose rows can be written back."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from farpoint._types import Array

Rows = NDArray[np.int64]


class Source(Protocol):
    """The full content of a file, so that rows can be written in its own format."""

    def save(self, path: Path, rows: Rows) -> list[str] | None:
        """Writes these rows, in this order, with all their data; names what is left out."""


@dataclass(frozen=True, repr=False, eq=False)
class Cloud:
    """N points and their attributes."""

    points: Array
    """(N, 3) in the file's own precision: float64 where the file stores text or scaled integers."""
    attributes: Mapping[str, Array]
    """Arrays with N rows each, by name."""
    source: Source | None = None
    """The content of the file, if its format can be written row by row."""
    crs: str | None = None
    """The coordinate reference system as WKT, if the file has it."""
    unit: str | None = None
    """Unit of the coordinates, if the file or its format names one: "metre", "foot", "degree"."""
    notes: tuple[str, ...] = ()
    """Parts of the file that are not in this cloud, in words.

    "left out: 12 of the element face" is in no file written from it; "not an attribute: views (a
    list)" is in those of its own format.
    """

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        names = ", ".join(self.attributes)
        return f"Cloud({len(self)} points of {self.points.dtype}; attributes: {names or 'none'})"

    def take(self, rows: Rows) -> "Cloud":
        """The rows as a new cloud, without the content of the file."""
        chosen = {name: values[rows] for name, values in self.attributes.items()}
        return Cloud(self.points[rows], chosen, crs=self.crs, unit=self.unit)


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file.

    Attributes:
        format: the suffix to go by, for example ".laz", instead of the file's own.
        columns: names of the columns of a `.bin`, a plain array or a text without names.
        array: the array of an `.npz` that holds the points.
        topic: the topic of a recording that holds the clouds.
        message: which cloud of the topic, from 0.
    """

    format: str | None = None
    columns: tuple[str, ...] | None = None
    array: str | None = None
    topic: str | None = None
    message: int = 0

    def __post_init__(self) -> None:
        missing = {"x", "y", "z"} - {name.lower() for name in self.columns or ("x", "y", "z")}
        if missing:
            raise ValueError(f"columns must name x, y and z, got {','.join(self.columns or ())}")
        if self.columns and len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns must differ in name, got {','.join(self.columns)}")
