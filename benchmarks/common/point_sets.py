"""Seeded point clouds for benchmarks, synthetic but for one: float32 (n, 3), contiguous."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from farpoint_training.scenes import lidar_scan

Cloud = npt.NDArray[np.float32]
ROOT = Path(__file__).resolve().parents[2]
# Points of a 128-beam sensor as KITTI has them; STREET_SCAN names a whole scan, or any other.
STREET = ROOT / "tests" / "data" / "street_kitti_part.bin"


def lidar(n: int) -> Cloud:
    """A street seen by a 64-beam sensor, in the order the sensor reports it."""
    columns = int(n / 64 * 1.15) + 8
    scan = lidar_scan(seed=0, columns=columns)
    while len(scan) < n:
        columns = int(columns * 1.1)
        scan = lidar_scan(seed=0, columns=columns)
    keep = np.linspace(0, len(scan) - 1, n).astype(np.int64)
    return np.ascontiguousarray(scan[keep, :3])


@cache
def _street() -> Cloud:
    path = os.environ.get("STREET_SCAN") or STREET
    return np.fromfile(path, np.float32).reshape(-1, 4)[:, :3]


def street_points() -> int:
    """The most that `street` has."""
    return len(_street())


def street(n: int) -> Cloud:
    """Points of a real scan in random order."""
    rows = np.random.default_rng(0).permutation(street_points())[:n]
    return np.ascontiguousarray(_street()[rows])


def cube(n: int) -> Cloud:
    return np.random.default_rng(0).random((n, 3), np.float32)


def sphere(n: int) -> Cloud:
    """The surface of a ball."""
    p = np.random.default_rng(0).normal(size=(n, 3))
    surface: Cloud = (p / np.linalg.norm(p, axis=1, keepdims=True)).astype(np.float32)
    return surface


def lattice(n: int) -> Cloud:
    """Integer positions in random order: nearly every distance is a tie."""
    side = int(np.ceil(n ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)
    return np.random.default_rng(0).permutation(grid)[:n].astype(np.float32)


def equal(n: int) -> Cloud:
    """One position n times."""
    return np.full((n, 3), 1.5, np.float32)


POINT_SETS: dict[str, Callable[[int], Cloud]] = {
    "lidar": lidar,
    "street": street,
    "cube": cube,
    "sphere": sphere,
    "lattice": lattice,
    "equal": equal,
}
