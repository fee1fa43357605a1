"""Headerless .bin of little-endian float32 rows: columns of KITTI, of nuScenes, or named ones.

The file does not say how wide its rows are. Values that do not fit KITTI's are an error: read at
another width they would be a cloud of wrong points.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.records import named_columns
from farpoint.packed import AXES

# Clouds of other formats have other columns.
WRITES_OWN = True
_KITTI = (*AXES, "intensity")
_NUSCENES = (*_KITTI, "ring")
_HINT = "name the columns, as in --columns x,y,z,i,ring or x,y,z"


@dataclass(frozen=True)
class BinSource:
    """All columns, (N, columns) float32."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        self.array[rows].tofile(path)


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads the columns of the options, else nuScenes' of a .pcd.bin, else KITTI's."""
    size = path.stat().st_size
    names = options.columns or (_NUSCENES if path.name.lower().endswith(".pcd.bin") else _KITTI)
    if size % (4 * len(names)):
        hint = "" if options.columns else f": {_HINT}"
        raise ValueError(f"expected rows of {len(names)} float32, got {size} bytes{hint}")
    array = np.fromfile(path, "<f4").reshape(-1, len(names))
    if names is _KITTI and size and not _is_kitti(array):
        raise ValueError(f"expected rows of x, y, z and an intensity from 0 to 1: {_HINT}")
    return Cloud(*named_columns(array, names), BinSource(array))


def _is_kitti(array: Array) -> bool:
    """Whether each intensity is from 0 to 1, and not every coordinate too, as in a unit cube."""
    inside = (array >= 0) & (array <= 1)
    return bool(inside[:, 3].all() and not inside.all())
