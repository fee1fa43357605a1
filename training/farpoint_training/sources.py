"""Training clouds, determined by seed and step."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from farpoint_training.families import TRAINING, heading, sample_shape
from farpoint_training.scenes import lidar_scan

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


def crop(cloud: Cloud, points: int, rng: np.random.Generator) -> Cloud:
    """Some of the points nearest to a random one, turned; the more are left out, the sparser.

    A cloud of fewer points than asked for is repeated.
    """
    middle = cloud[rng.integers(len(cloud))].astype(np.float64)
    local = cloud.astype(np.float64) - middle
    wanted = min(len(cloud), int(points * rng.uniform(1, WIDEST_CROP)))
    near = np.argpartition((local**2).sum(1), wanted - 1)[:wanted]
    rows = rng.choice(near, points, replace=wanted < points)
    turned: Cloud = (local[rows] @ heading(rng)).astype(np.float32)
    return turned


# Clouds of several sizes, always as many points in a step.
CLOUD_SIZES = (512, 1024, 2048)


def batch(sources: Sequence[Source], points: int, seed: int, step: int) -> Tensor:
    """Clouds of one size (B, N, 3), float32; B * N is `points`, or N where that is less."""
    rng = np.random.default_rng((seed, step))
    size = min(int(rng.choice(CLOUD_SIZES)), points)
    clouds = [sources[int(rng.integers(len(sources)))](size, rng) for _ in range(points // size)]
    return torch.from_numpy(np.stack(clouds))
