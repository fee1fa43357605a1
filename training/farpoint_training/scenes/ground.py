"""The ground of a street: a gently uneven road with painted lines, between raised sidewalks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from farpoint_training.scenes.shapes import Array, Hits

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
