"""`Cloud`: coordinates and attributes read from a file, whose rows can be written back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from farpoint._arrays import Array

Rows = NDArray[np.int64]


class Source(Protocol):
    """What a file held beyond coordinates, kept so that rows can be written in its own format."""

    def save(self, path: Path, rows: Rows) -> None:
        """Writes these rows, in this order, with everything the file had about them."""


@dataclass(frozen=True, repr=False, eq=False)
class Cloud:
    """N points and what is known about each."""

    points: Array
    """(N, 3) in the file's own precision: float64 where the file stores text or scaled integers."""
    attributes: dict[str, Array]
    """Arrays with N rows each, by name."""
    source: Source

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        names = ", ".join(self.attributes)
        return f"Cloud({len(self)} points of {self.points.dtype}; attributes: {names or 'none'})"
