"""From a family to a point cloud such as a sensor or a mesh sampler would give."""

import numpy as np
import numpy.typing as npt

from farpoint_training.families.families import FAMILIES
from farpoint_training.families.patches import Array, triangles

NOISE = 0.005
OVERSAMPLING = 6
HIDDEN_MAX = 0.6
SLOPE_MAX = 1.5


def sample_shape(
    name: str, points: int, rng: np.random.Generator, *, partial: bool = False
) -> npt.NDArray[np.float32]:
    """A cloud on the surface of a shape of a family.

    Args:
        name: A key of `FAMILIES`.
        points: Rows of the cloud.
        rng: Decides everything else. The shape is about 1 to 4 units large, turned around the z
            axis; its density falls by up to e ** 1.5 per unit in a random direction; noise is half
            a percent of its size.
        partial: Cut off up to 60 % of the surface by a random plane, as if seen from one side.

    Returns:
        float32 (points, 3), in random order.
    """
    corners = triangles(FAMILIES[name](rng))
    surface = _uniform(corners, OVERSAMPLING * points, rng)
    if partial:
        surface = _cut(surface, rng)
    kept = surface[_thin(surface, points, rng)] * rng.uniform(0.8, 1.25, 3)
    kept += rng.normal(0, NOISE, kept.shape)
    size = np.exp(rng.uniform(np.log(0.5), np.log(2.0)))
    cloud: npt.NDArray[np.float32] = (size * kept @ _heading(rng)).astype(np.float32)
    return cloud


def _uniform(corners: Array, points: int, rng: np.random.Generator) -> Array:
    """Points spread evenly over triangles (T, 3, 3)."""
    a, b, c = corners.transpose(1, 0, 2)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=-1)
    picked = rng.choice(len(area), points, p=area / area.sum())
    u, v = rng.random((2, points, 1))
    fold = u + v > 1
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    spread: Array = a[picked] + u * (b - a)[picked] + v * (c - a)[picked]
    return spread


def _cut(surface: Array, rng: np.random.Generator) -> Array:
    """The part on one side of a plane."""
    along = surface @ rng.normal(size=3)
    return surface[along >= np.quantile(along, rng.uniform(0, HIDDEN_MAX))]


def _thin(surface: Array, points: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Rows to keep, fewer and fewer along a random direction: weighted draws, by Gumbel noise."""
    slope = rng.normal(size=3)
    slope *= rng.uniform(0, SLOPE_MAX) / np.linalg.norm(slope)
    keys = surface @ slope + rng.gumbel(size=len(surface))
    return rng.permutation(np.argpartition(-keys, points - 1)[:points])


def _heading(rng: np.random.Generator) -> Array:
    yaw = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
