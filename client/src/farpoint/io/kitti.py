"""Headerless .bin of little-endian float32: x y z intensity (KITTI), and ring (nuScenes)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._arrays import Array
from farpoint.io.cloud import Cloud, Rows

NAMES = ("x", "y", "z", "intensity", "ring")


@dataclass(frozen=True)
class BinSource:
    """All columns, (N, 4) or (N, 5) float32."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        self.array[rows].tofile(path)


def read(path: Path) -> Cloud:
    """Reads four columns, or five where the name ends in .pcd.bin as in nuScenes."""
    columns = 5 if path.name.lower().endswith(".pcd.bin") else 4
    size = path.stat().st_size
    if size % (4 * columns):
        five = columns == 4 and size % 20 == 0
        hint = "; for five columns (nuScenes) the name must end in .pcd.bin" if five else ""
        raise ValueError(f"expected rows of {columns} float32, got {size} bytes{hint}")
    array = np.fromfile(path, "<f4").reshape(-1, columns)
    attributes = {NAMES[i]: array[:, i] for i in range(3, columns)}
    return Cloud(array[:, :3], attributes, BinSource(array))
