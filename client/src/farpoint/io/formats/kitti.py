"""Headerless .bin of little-endian float32: x y z intensity (KITTI), and ring (nuScenes)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.options import ReadOptions
from farpoint.io.records import axis_positions

KITTI = ("x", "y", "z", "intensity")
NUSCENES = (*KITTI, "ring")
# More beams than any sensor has: what is below is taken for a ring.
MOST_RINGS = 512


# Clouds of other formats lack what this one has, or have what it lacks.
WRITES_OWN = True


@dataclass(frozen=True)
class BinSource:
    """All columns, (N, columns) float32."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        self.array[rows].tofile(path)


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads the columns that the options name; else four, or five where the name ends in .pcd.bin.

    Raises:
        ValueError: the size fits no whole number of rows, or five columns fit better than four.
    """
    names = options.columns or (NUSCENES if path.name.lower().endswith(".pcd.bin") else KITTI)
    size = path.stat().st_size
    values = np.fromfile(path, "<f4") if size % 4 == 0 else np.empty(0, "<f4")
    if size % (4 * len(names)):
        hint = "" if options.columns else _hint(size)
        raise ValueError(f"expected rows of {len(names)} float32, got {size} bytes{hint}")
    if not options.columns and names is KITTI and _looks_like_five(values):
        raise ValueError(f"{size} bytes are whole rows of 4 float32 and of 5{_hint(size)}")
    array = values.reshape(-1, len(names))
    axes = axis_positions(list(names))
    attributes = {names[i]: array[:, i] for i in range(len(names)) if i not in axes}
    points = array[:, :3] if axes == [0, 1, 2] else array[:, axes]
    return Cloud(points, attributes, BinSource(array))


def _looks_like_five(values: np.ndarray) -> bool:
    """Whether every fifth value is a ring: a small whole number, not always the same."""
    if not len(values) or len(values) % 20:
        return False
    rings = values[4::5]
    whole = (rings == np.floor(rings)) & (rings >= 0) & (rings < MOST_RINGS)
    return bool(whole.all() and rings.min() < rings.max())


def _hint(size: int) -> str:
    widths = [width for width in (3, 4, 5, 6, 7, 8) if size % (4 * width) == 0]
    fits = f" ({', '.join(map(str, widths))} columns would fit)" if widths else ""
    return (
        f"{fits}: for five (nuScenes) say --columns x,y,z,i,ring, or let the name end in .pcd.bin"
    )
