"""Voxel grids and random rows in numpy, written from the contract alone."""

from collections import defaultdict

import numpy as np


def voxel_members(points: np.ndarray, size: float, origin: tuple[float, ...]) -> list[np.ndarray]:
    """Rows in each voxel that has any, the voxels by their first row."""
    cells: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for row, point in enumerate(points.astype(np.float64)):
        if np.isfinite(point).all():
            cells[tuple(np.floor((point - origin) / size))].append(row)
    return [np.array(rows) for rows in cells.values()]


def voxel_rows(
    points: np.ndarray,
    size: float,
    select: str = "first",
    origin: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> list[int]:
    """Ascending rows, one of each voxel."""
    members = voxel_members(points, size, origin)
    if select != "nearest_mean":
        return [int(rows[0]) for rows in members]
    nearest = []
    for rows in members:
        scaled = (points[rows].astype(np.float64) - origin) / size
        places = ((scaled - np.floor(scaled)) * 2**30).astype(np.int64)
        away = places - places.sum(0) / len(rows)
        nearest.append(int(rows[(away**2).sum(1).argmin()]))
    return sorted(nearest)


def voxel_means(points: np.ndarray, size: float) -> np.ndarray:
    """Means of the points as they are, so equal to the contract's but for 2^-30 of the size."""
    wide = points.astype(np.float64)
    return np.array([wide[rows].mean(0) for rows in voxel_members(points, size, (0, 0, 0))])


def random_rows(points: np.ndarray, m: int, seed: int) -> list[int]:
    """Rows by their numbers of SplitMix64, the finite ones before all others."""
    with np.errstate(over="ignore"):
        places = np.arange(1, len(points) + 1, dtype=np.uint64)
        z = np.uint64(seed) + places * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    is_last = ~np.isfinite(points.astype(np.float64)).all(1)
    return np.lexsort((np.arange(len(points)), z, is_last))[:m].tolist()
