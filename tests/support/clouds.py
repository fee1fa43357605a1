"""Clouds for tests: real ones, and random ones that are awkward; their samples by brute force."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[1] / "data"


def cloud_file(name: str) -> Path:
    """Path of a cloud in tests/data."""
    return DATA / name


def street_scan() -> np.ndarray:
    """Each fourth point of a street seen by 128 beams: float32 (26912, 4), x y z intensity."""
    return np.fromfile(cloud_file("street_kitti_part.bin"), "<f4").reshape(-1, 4)


def ten_scans() -> list[np.ndarray]:
    """Each third point of ten ragged scans: float32 (about 2050, 4)."""
    with np.load(cloud_file("ten_scans_part.npz")) as scans:
        return [scans[f"scan{i}"] for i in range(10)]


Cloud = NDArray[np.float32]


def uniform(rng: np.random.Generator, n: int) -> Cloud:
    return rng.random((n, 3), dtype=np.float32)


def surface(rng: np.random.Generator, n: int) -> Cloud:
    """Points of a unit sphere: all equally far from the center."""
    points = rng.standard_normal((n, 3))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def lattice(rng: np.random.Generator, n: int) -> Cloud:
    """Integer positions in a random order: nearly every distance is a tie."""
    side = int(np.ceil(n ** (1 / 3)))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)
    return rng.permutation(cells)[:n].astype(np.float32)


def duplicates(rng: np.random.Generator, n: int) -> Cloud:
    """Few distinct positions, so that sampling runs out of them."""
    return rng.integers(0, 3, (n, 3)).astype(np.float32)


def coincident(rng: np.random.Generator, n: int) -> Cloud:
    return np.repeat(rng.random((1, 3), dtype=np.float32), n, axis=0)


def with_holes(rng: np.random.Generator, n: int) -> Cloud:
    """A fifth of the rows has a coordinate that is not finite."""
    cloud = uniform(rng, n)
    bad = rng.random(n) < 0.2
    cloud[bad, rng.integers(0, 3, bad.sum())] = rng.choice([np.nan, np.inf, -np.inf], bad.sum())
    return cloud


def nothing_finite(rng: np.random.Generator, n: int) -> Cloud:
    return rng.choice(np.float32([np.nan, np.inf]), (n, 3))


def huge(rng: np.random.Generator, n: int) -> Cloud:
    """Squared distances that overflow to infinity."""
    return (rng.standard_normal((n, 3)) * 1e25).astype(np.float32)


def outliers(rng: np.random.Generator, n: int) -> Cloud:
    """A small cluster and a few points far away, each at its own scale."""
    cloud = uniform(rng, n)
    far = rng.integers(0, n, min(n, 6))
    cloud[far] *= (10.0 ** np.arange(2, 2 + len(far)))[:, None].astype(np.float32)
    return cloud


def nested(rng: np.random.Generator, n: int) -> Cloud:
    """Every point at a scale of its own: distances fall by far more than half at a time."""
    return (rng.standard_normal((n, 3)) * 4.0 ** -rng.integers(0, 60, (n, 1))).astype(np.float32)


SHAPES: tuple[Callable[[np.random.Generator, int], Cloud], ...] = (
    uniform,
    surface,
    lattice,
    duplicates,
    coincident,
    with_holes,
    nothing_finite,
    huge,
    outliers,
    nested,
)


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
