"""Clouds in a folder of the user: arrays, KITTI scans and columns of text."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def _npz(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as arrays:
        name = "points" if "points" in arrays else arrays.files[0]
        return np.asarray(arrays[name])


READERS: dict[str, Callable[[Path], Array]] = {
    ".bin": lambda path: np.fromfile(path, "<f4").reshape(-1, 4).astype(np.float64),
    ".npy": lambda path: np.asarray(np.load(path, allow_pickle=False)),
    ".npz": _npz,
    ".txt": lambda path: np.loadtxt(path, ndmin=2),
    ".xyz": lambda path: np.loadtxt(path, ndmin=2),
}


def cloud_files(folder: Path) -> list[Path]:
    """The files below `folder` that can be read, sorted; ValueError when there are none."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in READERS)
    if not files:
        raise ValueError(f"data: expected {', '.join(READERS)} files in {folder}, found none")
    return files


def read_cloud(path: Path) -> npt.NDArray[np.float32]:
    """The finite points of a file, float32 (N, 3), from its first; later columns are left out.

    Raises:
        ValueError: It does not hold (N, 3 or more) numbers, or none of them are finite.
    """
    rows = READERS[path.suffix.lower()](path)
    if rows.ndim != 2 or rows.shape[1] < 3 or rows.dtype.kind not in "fiu":
        raise ValueError(f"{path}: expected numbers of shape (N, 3 or more), got {rows.shape}")
    points = rows[:, :3].astype(np.float64)
    points = points[np.isfinite(points).all(1)]
    if len(points) == 0:
        raise ValueError(f"{path}: expected points, found none that is finite")
    local: npt.NDArray[np.float32] = (points - points[0]).astype(np.float32)
    return local
