"""Recorded clouds: the files of `tests/data`, or the whole files that they are parts of."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import farpoint
from farpoint_training.sources import rotation

Rows = npt.NDArray[np.float32]
POINTS = 8192
# Scans of one place, a moment apart: the sensor moved less than 0.2 m. An array follows a colon.
CONSECUTIVE = {
    "street, OS1-128": ("*street_kitti*.bin", "*street_organized*.npy"),
    "street, OS1-128, whole": ("driving*kitti.bin", "driving*organised.npy"),
    "street, OS0-8": ("*ten_scans*.npz:scan0", "*ten_scans*.npz:scan6"),
}
# Clouds that two views are made of: the axis and the points of a view are drawn.
SINGLE = ("vehicle_lidar*", "car_cloud*", "indoor*", "office*", "room*", "milk*")
SHOWN = 0.8


class Pair(NamedTuple):
    """Two views of a place, in its frame, and the same rotation of the other for each caller."""

    name: str
    one: Rows
    other: Rows
    turn: Rows


def read(folder: Path, pattern: str) -> Rows | None:
    """Distinct points around the first, float32, sorted; None where there is no such file."""
    pattern, _, array = pattern.partition(":")
    for path in sorted(folder.glob(pattern)):
        points = farpoint.io.read_cloud(path, array=array or None).points
        points = points[np.isfinite(points).all(1) & points.any(1)].astype(np.float64)
        return np.unique(points, axis=0).astype(np.float32)
    return None


def pairs(folder: Path) -> Iterator[Pair]:
    """Pairs of scans, up to POINTS each; two pairs of views of each single cloud."""
    rng = np.random.default_rng(0)
    for name, patterns in CONSECUTIVE.items():
        one, other = (read(folder, pattern) for pattern in patterns)
        if one is not None and other is not None:
            yield pair(name, one, other, rng)
    for pattern in SINGLE:
        cloud = read(folder, pattern)
        for _ in range(0 if cloud is None else 2):
            mixed = rng.permutation(cloud)
            along = mixed @ rng.normal(size=3)
            low, high = np.quantile(along, [1 - SHOWN, SHOWN])
            half = np.arange(len(mixed)) < len(mixed) // 2
            views = mixed[half & (along < high)], mixed[~half & (along > low)]
            yield pair(pattern.rstrip("*"), *views, rng)


def pair(name: str, one: Rows, other: Rows, rng: np.random.Generator) -> Pair:
    """Random rows of both, around one origin."""
    origin = one.mean(0)
    one, other = (rng.permutation(cloud)[:POINTS] - origin for cloud in (one, other))
    return Pair(name, one, other, rotation(rng).astype(np.float32))
