"""Solids seen from the origin: where a ray from there meets each, and its surface normal."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
# Stands in for a ray's speed towards a plane it runs along, so that it meets the plane very late
# (from outside) or met it long ago (from inside), never NaN.
PARALLEL = -1e-12


@dataclass(frozen=True)
class Hits:
    """Distance along each ray (inf where it passes), unit normal and reflectivity there."""

    distance: Array
    normal: Array
    reflectivity: Array


class Shape(Protocol):
    """A solid with a bounding circle in the xy plane."""

    @property
    def center(self) -> tuple[float, float]: ...
    @property
    def reach(self) -> float: ...
    def cast(self, rays: Array) -> Hits:
        """Meets unit rays of shape (..., 3) that start at the origin."""
        ...


@dataclass(frozen=True)
class Convex:
    """The points p with normals @ p <= offsets: boxes, cabins, roofs."""

    normals: Array
    offsets: Array
    center: tuple[float, float]
    reach: float
    reflectivity: float

    def cast(self, rays: Array) -> Hits:
        speed = rays @ self.normals.T
        speed[speed == 0] = PARALLEL
        meet = self.offsets / speed
        enters = np.where(speed < 0, meet, -np.inf)
        leaves = np.where(speed > 0, meet, np.inf).min(axis=-1)
        face = enters.argmax(axis=-1)
        near = enters.max(axis=-1)
        distance = np.where((near > 0) & (near < leaves), near, np.inf)
        return Hits(distance, self.normals[face], np.full(near.shape, self.reflectivity))


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid with axes along x, y and z."""

    position: tuple[float, float, float]
    radii: tuple[float, float, float]
    reflectivity: float

    @property
    def center(self) -> tuple[float, float]:
        return self.position[:2]

    @property
    def reach(self) -> float:
        return max(self.radii[:2])

    def cast(self, rays: Array) -> Hits:
        radii, position = np.array(self.radii), np.array(self.position)
        distance = _meet_quadric(rays / radii, position / radii)
        reached = np.where(np.isfinite(distance), distance, 0.0)[..., None] * rays
        normal = (reached - position) / radii**2
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        return Hits(distance, normal, np.full(distance.shape, self.reflectivity))


@dataclass(frozen=True)
class Pole:
    """An upright cylinder without caps."""

    center: tuple[float, float]
    reach: float
    bottom: float
    top: float
    reflectivity: float

    def cast(self, rays: Array) -> Hits:
        center = np.array(self.center)
        distance = _meet_quadric(rays[..., :2] / self.reach, center / self.reach)
        finite = np.where(np.isfinite(distance), distance, 0.0)[..., None]
        height = finite[..., 0] * rays[..., 2]
        distance = np.where((height > self.bottom) & (height < self.top), distance, np.inf)
        normal = np.zeros_like(rays)
        normal[..., :2] = (finite * rays[..., :2] - center) / self.reach
        return Hits(distance, normal, np.full(distance.shape, self.reflectivity))


def box(
    position: tuple[float, float],
    heights: tuple[float, float],
    size: tuple[float, float],
    yaw: float = 0.0,
    taper: float = 0.0,
    reflectivity: float = 0.4,
) -> Convex:
    """A box turned by `yaw`; `taper` is how far its walls lean inwards, in meters per meter."""
    c, s = np.cos(yaw), np.sin(yaw)
    lean = 1 / np.hypot(1, taper)
    sides = np.array([[c, s], [-c, -s], [-s, c], [s, -c]]) * lean
    walls = np.column_stack([sides, np.full(4, taper * lean)])
    normals = np.vstack([walls, [[0, 0, 1], [0, 0, -1]]])
    half = np.array([size[0], size[0], size[1], size[1]]) / 2
    base = np.array([*position, heights[0]])
    offsets = np.append(walls @ base + half * lean, [heights[1], -heights[0]])
    return Convex(normals, offsets, position, float(np.hypot(*size)) / 2, reflectivity)


def _meet_quadric(rays: Array, center: Array) -> Array:
    """Distance to the unit sphere (or circle) around `center`, inf where it is missed."""
    a = (rays**2).sum(axis=-1)
    b = rays @ center
    root = b**2 - a * (center @ center - 1)
    near = (b - np.sqrt(np.maximum(root, 0))) / a
    return np.where((root > 0) & (near > 0), near, np.inf)
