"""Training clouds, decided by the seed and the step alone, so that a run can be resumed."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from farpoint_training.families import TRAINING, sample_shape
from farpoint_training.scenes import lidar_scan

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


Cloud = npt.NDArray[np.float32]
WIDEST_CROP = 6.0


class Source(Protocol):
    """Draws float32 clouds (points, 3)."""

    def __call__(self, points: int, rng: np.random.Generator) -> Cloud: ...


def shapes(names: Sequence[str] = TRAINING) -> Source:
    """Shapes of the families `names`, half of them seen from one side only."""

    def draw(points: int, rng: np.random.Generator) -> Cloud:
        partial = bool(rng.integers(2))
        return sample_shape(str(rng.choice(names)), points, rng, partial=partial)

    return draw


def scans(first_seed: int, scenes: int = 6) -> Source:
    """Parts of ray-cast LiDAR scans of so many streets, counted from `first_seed`."""

    @lru_cache(maxsize=scenes)
    def scene(index: int) -> Cloud:
        return lidar_scan(first_seed + index, columns=1024)[:, :3]

    return lambda points, rng: crop(scene(int(rng.integers(scenes))), points, rng)


def folder(path: Path) -> Source:
    """Parts of the clouds in the user's folder."""
    files = cloud_files(path)
    read = lru_cache(maxsize=32)(read_cloud)
    return lambda points, rng: crop(read(files[int(rng.integers(len(files)))]), points, rng)


def crop(cloud: Cloud, points: int, rng: np.random.Generator) -> Cloud:
    """Some of the points nearest to a random one, turned; the more are left out, the sparser.

    A cloud of fewer points than asked for is repeated.
    """
    middle = cloud[rng.integers(len(cloud))].astype(np.float64)
    local = cloud.astype(np.float64) - middle
    wanted = min(len(cloud), int(points * rng.uniform(1, WIDEST_CROP)))
    near = np.argpartition((local**2).sum(1), wanted - 1)[:wanted]
    rows = rng.choice(near, points, replace=wanted < points)
    yaw = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(yaw), np.sin(yaw)
    turned: Cloud = (local[rows] @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])).astype(np.float32)
    return turned


# Clouds of several sizes, always as many points in a step.
CLOUD_SIZES = (512, 1024, 2048)


def batch(sources: Sequence[Source], points: int, seed: int, step: int) -> Tensor:
    """Clouds of one size (B, N, 3), float32; B * N is `points`, or N where that is less."""
    rng = np.random.default_rng((seed, step))
    size = min(int(rng.choice(CLOUD_SIZES)), points)
    clouds = [sources[int(rng.integers(len(sources)))](size, rng) for _ in range(points // size)]
    return torch.from_numpy(np.stack(clouds))
