"""Training clouds, determined by seed and step."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from farpoint_training.families import TRAINING, heading, sample_shape
from farpoint_training.scenes import lidar_scan

Cloud = npt.NDArray[np.float32]
WIDEST_CROP = 6.0
SHOWN, SLOPE, NOISE = 0.7, 1.0, 0.3


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


class View(NamedTuple):
    """B clouds as one view shows them.

    Attributes:
        places: Where the points are in the clouds, (B, N, 3), without noise.
        seen: The points, moved and turned, with noise, (B, N, 3).
    """

    places: Tensor
    seen: Tensor


def rooms(names: Sequence[str] = TRAINING) -> Source:
    """A floor, walls and shapes between them."""

    def draw(points: int, rng: np.random.Generator) -> Cloud:
        size, parts = rng.uniform(2, 6, 3), []
        for axis in (2, 2, 1, 0)[: int(rng.integers(1, 5))]:
            wall = rng.uniform(-0.5, 0.5, (points, 3)) * size
            wall[:, axis] = rng.choice((-0.5, 0.5)) * size[axis]
            parts.append(wall)
        for _ in range(int(rng.integers(3, 9))):
            shape = sample_shape(str(rng.choice(names)), points, rng) @ rotation(rng)
            parts.append(shape * rng.uniform(0.3, 1) + rng.uniform(-0.5, 0.5, 3) * size)
        return crop(np.concatenate(parts), points, rng)

    return draw


# Points of a view.
SIZES = (512, 1024, 2048)


def views(
    sources: Sequence[Source],
    total: int,
    rng: np.random.Generator,
    tilt: float,
    sizes: Sequence[int] = SIZES,
) -> tuple[View, View]:
    """Two views of each of a few clouds of one size.

    A view shows at least SHOWN of a cloud along a random axis, thinned towards a random direction.

    Args:
        sources: Of the clouds.
        total: Points of one view of all clouds, or of a cloud where that is more.
        rng: Decides everything.
        sizes: Points of a cloud, one of these.
        tilt: Degrees by which a view leans at most, after a turn about the z axis.
    """
    points = min(int(rng.choice(sizes)), total)
    shown = []
    for _ in range(total // points):
        cloud = sources[int(rng.integers(len(sources)))](math.ceil(2 * points / SHOWN), rng)
        shown += [_view(cloud, points, rng, tilt) for _ in range(2)]
    places, seen = (torch.from_numpy(np.stack(part)) for part in zip(*shown, strict=True))
    return View(places[::2], seen[::2]), View(places[1::2], seen[1::2])


def _view(cloud: Cloud, points: int, rng: np.random.Generator, tilt: float) -> tuple[Cloud, Cloud]:
    axis = rng.normal(size=(3, 2)) / 2
    along = cloud @ axis / cloud.std()
    hidden = along[:, 0] < np.quantile(along[:, 0], rng.uniform(0, 1 - SHOWN))
    keys = rng.uniform(0, SLOPE) * along[:, 1] + rng.gumbel(size=len(cloud)) - 99 * hidden
    rows = rng.permutation(np.argpartition(-keys, points - 1)[:points])
    places = cloud[rows]
    gap = cloud.std() / math.sqrt(points)
    noisy = places + rng.normal(0, rng.uniform(0, NOISE) * gap, places.shape)
    turn = heading(rng) @ leaning(rng, tilt)
    return places.astype(np.float32), (noisy @ turn).astype(np.float32)


def rotation(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Any rotation, each as likely."""
    turn, triangle = np.linalg.qr(rng.normal(size=(3, 3)))
    turn = turn * np.sign(np.diag(triangle))
    turn[:, 0] *= np.linalg.det(turn)
    return np.asarray(turn)


def leaning(rng: np.random.Generator, degrees: float) -> npt.NDArray[np.float64]:
    """A rotation by up to so many degrees about a random level axis."""
    if degrees >= 180:
        return rotation(rng)
    angle, turn = np.radians(rng.uniform(0, degrees)), heading(rng)
    c, s = np.cos(angle), np.sin(angle)
    return np.asarray(turn.T @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ turn)
