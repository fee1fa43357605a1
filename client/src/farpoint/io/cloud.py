"""`Cloud`: coordinates and attributes read from a file, whose rows can be written back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from farpoint._types import Array

Rows = NDArray[np.int64]


class Source(Protocol):
    """What a file held beyond coordinates, kept so that rows can be written in its own format."""

    def save(self, path: Path, rows: Rows) -> None:
        """Writes these rows, in this order, with everything the file had about them."""


class Chunks(Protocol):
    """A file whose points are read a part at a time."""

    @property
    def count(self) -> int:
        """Points, as the header announces them."""

    def chunks(self, size: int) -> Iterator[Array]:
        """Coordinates (size, 3), in the order of the file; the last part may be smaller."""

    def gather(self, rows: Rows, size: int) -> "Cloud":
        """These rows, in this order, with all that the file has; it is read again for them."""


@dataclass(frozen=True, repr=False, eq=False)
class Cloud:
    """N points and what is known about each."""

    points: Array
    """(N, 3) in the file's own precision: float64 where the file stores text or scaled integers."""
    attributes: Mapping[str, Array]
    """Arrays with N rows each, by name."""
    source: Source | None = None
    """For a cloud of a format that can be written back row by row."""
    crs: str | None = None
    """The coordinate reference system as WKT, where the file names one that way."""
    unit: str | None = None
    """Of the coordinates, where the file or its format names one: "metre", "foot", "degree"."""
    notes: tuple[str, ...] = ()
    """What of the file is not in this cloud, in words: "12 faces are left out"."""

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        names = ", ".join(self.attributes)
        return f"Cloud({len(self)} points of {self.points.dtype}; attributes: {names or 'none'})"

    def take(self, rows: Rows) -> "Cloud":
        """The rows as a cloud of their own, without what its file held beyond columns."""
        chosen = {name: values[rows] for name, values in self.attributes.items()}
        return Cloud(self.points[rows], chosen, crs=self.crs, unit=self.unit)
