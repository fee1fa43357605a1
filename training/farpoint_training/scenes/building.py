"""A block of flats whose windows are set back into its walls."""

from dataclasses import dataclass

import numpy as np

from farpoint_training.scenes.shapes import PARALLEL, Array, Convex, Hits, box

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
        """Where rays that meet a wall end: on the wall, or where they leave a window's hollow."""
        row = np.arange(len(rays))
        across = (np.abs(normal[:, 0]) > 0.5).astype(int)  # axis of the window's width
        inwards = 1 - across
        point = distance[:, None] * rays
        middle = (np.floor(point[row, across] / self.bay) + 0.5) * self.bay
        floor = self.ground + np.floor((point[:, 2] - self.ground) / self.storey) * self.storey
        beside = np.abs(point[row, across] - middle) < WINDOW_WIDTH / 2
        level = (point[:, 2] > floor + SILL) & (point[:, 2] < floor + LINTEL)

        sideways, upwards = _never_zero(rays[row, across]), _never_zero(rays[:, 2])
        side = middle + np.copysign(WINDOW_WIDTH / 2, sideways)
        lid = np.where(upwards > 0, floor + LINTEL, floor + SILL)
        to_glass = distance + WINDOW_DEPTH / np.abs(rays[row, inwards])
        to_frame = np.minimum(side / sideways, lid / upwards)
        through = beside & level
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
