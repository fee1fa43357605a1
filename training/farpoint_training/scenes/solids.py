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


WINDOW_WIDTH, WINDOW_DEPTH = 1.3, 0.28
SILL, LINTEL = 0.95, 2.45
GLASS = 0.07


@dataclass(frozen=True)
class Building:
    """An axis-aligned block; its windows repeat by bay and by storey on all four walls."""

    walls: Convex
    ground: float
    bay: float
    storey: float

    @property
    def center(self) -> tuple[float, float]:
        return self.walls.center

    @property
    def reach(self) -> float:
        return self.walls.reach

    def cast(self, rays: Array) -> Hits:
        hits = self.walls.cast(rays)
        seen = np.isfinite(hits.distance) & (hits.normal[..., 2] == 0)
        hits.distance[seen], glass = self._through_windows(
            rays[seen], hits.distance[seen], hits.normal[seen]
        )
        hits.reflectivity[seen] = np.where(glass, GLASS, hits.reflectivity[seen])
        return hits

    def _through_windows(self, rays: Array, distance: Array, normal: Array) -> tuple[Array, Array]:
        """Ends of rays that meet a wall: on the wall, or where they leave a window's hollow."""
        row = np.arange(len(rays))
        across = (np.abs(normal[:, 0]) > 0.5).astype(int)  # axis of the window's width
        inwards = 1 - across
        point = distance[:, None] * rays
        middle = (np.floor(point[row, across] / self.bay) + 0.5) * self.bay
        floor = self.ground + np.floor((point[:, 2] - self.ground) / self.storey) * self.storey
        within = np.abs(point[row, across] - middle) < WINDOW_WIDTH / 2
        level = (point[:, 2] > floor + SILL) & (point[:, 2] < floor + LINTEL)

        sideways, upwards = _never_zero(rays[row, across]), _never_zero(rays[:, 2])
        side = middle + np.copysign(WINDOW_WIDTH / 2, sideways)
        lid = np.where(upwards > 0, floor + LINTEL, floor + SILL)
        to_glass = distance + WINDOW_DEPTH / np.abs(rays[row, inwards])
        to_frame = np.minimum(side / sideways, lid / upwards)
        through = within & level
        end = np.where(through, np.minimum(to_glass, to_frame), distance)
        return end, through & (to_glass < to_frame)


def _never_zero(speed: Array) -> Array:
    """A ray along a frame meets it very late."""
    return np.where(speed == 0, -PARALLEL, speed)


def building(
    position: tuple[float, float],
    ground: float,
    size: tuple[float, float, float],
    bay: float,
    reflectivity: float,
) -> Building:
    """A block of `size` (length, depth, height) standing on the height `ground`."""
    walls = box(position, (ground - 1, ground + size[2]), size[:2], reflectivity=reflectivity)
    return Building(walls, ground, bay, 3.1)


CURB = 0.14
ASPHALT, PAVING, PAINT = 0.14, 0.3, 0.75
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ground:
    """`height` is the road's, `half_width` its own along x, `crossing` the span of the lane."""

    height: float
    half_width: float
    crossing: tuple[float, float]
    phase: tuple[float, float]

    def relief(self, x: Array, y: Array) -> Array:
        """Deviation from the plane: long waves of a few centimeters and the road's camber."""
        waves = 0.04 * np.sin(x / 9 + self.phase[0]) + 0.03 * np.sin(y / 7 + self.phase[1])
        return np.asarray(waves - 0.0015 * np.minimum(np.abs(y), self.half_width) ** 2)

    def on_sidewalk(self, x: Array, y: Array) -> Mask:
        in_lane = (x > self.crossing[0]) & (x < self.crossing[1])
        return np.asarray((np.abs(y) > self.half_width) & ~in_lane)

    def cast(self, rays: Array) -> Hits:
        """Meets unit rays (..., 3) from the origin; those that do not point down pass."""
        road = self._meet(rays, 0.0)
        walk = self._meet(rays, CURB)
        landed = self.on_sidewalk(*_across(rays, walk))
        distance = np.where(landed, walk, road)
        curb = ~landed & self.on_sidewalk(*_across(rays, road))
        distance[curb] = self._curb_face(rays[curb], walk[curb], road[curb])
        normal = np.zeros_like(rays)
        normal[..., 2] = 1
        finite = np.where(np.isfinite(distance), distance, 0.0)
        return Hits(distance, normal, self._reflectivity(*_across(rays, finite)))

    def _meet(self, rays: Array, raised: float) -> Array:
        """Distance to the surface `raised` above the road, by fixed-point steps from the plane."""
        fall = np.where(rays[..., 2] < 0, rays[..., 2], np.nan)
        distance = (self.height + raised) / fall
        for _ in range(4):
            distance = (self.height + raised + self.relief(*_across(rays, distance))) / fall
        return np.asarray(np.nan_to_num(distance, nan=np.inf))

    def _curb_face(self, rays: Array, near: Array, far: Array) -> Array:
        """Rays that sink below the sidewalk's level before they reach it end on the curb."""
        for _ in range(8):
            middle = (near + far) / 2
            beyond = self.on_sidewalk(*_across(rays, middle))
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        return far

    def _reflectivity(self, x: Array, y: Array) -> Array:
        edge = np.abs(np.abs(y) - (self.half_width - 2.2)) < 0.07
        dashes = (np.abs(y) < 0.08) & (x % 9 < 4)
        stripes = (np.abs(x - self.crossing[0] + 3) < 1.5) & (y % 1 < 0.5)
        paint = (edge | dashes | stripes) & (np.abs(y) < self.half_width)
        surface = np.where(self.on_sidewalk(x, y), PAVING, ASPHALT)
        return np.where(paint, PAINT, surface)


def _across(rays: Array, distance: Array) -> tuple[Array, Array]:
    finite = np.where(np.isfinite(distance), distance, 0.0)
    return finite * rays[..., 0], finite * rays[..., 1]
