"""Farthest point sampling written from its contract, in numpy, one step after the other."""

import numpy as np


def squared_distances(points: np.ndarray, to: np.ndarray) -> np.ndarray:
    """float32 fma(dz, dz, fma(dy, dy, dx * dx)): a product of two float32 is exact in float64."""
    dx, dy, dz = (points - to).astype(np.float32).T
    total = dx * dx
    for d in (dy, dz):
        total = (d.astype(np.float64) ** 2 + total).astype(np.float32)
    return total


def furthest_points(points: np.ndarray, m: int, start: int = 0) -> np.ndarray:
    """Rows of a float32 (N, 3) cloud; the lowest wins a tie, non-finite rows are left out."""
    usable = np.isfinite(points).all(axis=1)
    nearest = np.where(usable, np.float32(np.inf), np.float32(-1))
    row = start if usable[start] else int(usable.argmax())
    rows = []
    for _ in range(m):
        rows.append(row)
        nearest[usable] = np.minimum(
            nearest[usable], squared_distances(points[usable], points[row])
        )
        nearest[rows] = -1
        row = int(nearest.argmax())
    return np.array(rows)


def covering_radius(points: np.ndarray, rows: np.ndarray) -> float:
    """Largest distance from a point to the nearest of the chosen ones, in float64."""
    chosen = points[rows].astype(np.float64)
    squared = ((points.astype(np.float64)[:, None] - chosen) ** 2).sum(axis=2)
    return float(np.sqrt(squared.min(axis=1).max()))
