"""Scans of a spinning LiDAR in a street, made from a seed; numpy only."""

import numpy as np
import numpy.typing as npt

from farpoint_training.scenes.solids import Array, Shape
from farpoint_training.scenes.street import street

ELEVATION_DEGREES = (-25.0, 15.0)
RANGE_METERS = (1.0, 120.0)
RANGE_NOISE_METERS = 0.012
STRAY_LOSS = 0.01


def lidar_scan(seed: int = 0, beams: int = 64, columns: int = 2048) -> npt.NDArray[np.float32]:
    """One revolution of a spinning LiDAR in a street made from `seed`.

    Returns float32 (N, 4): x, y, z in meters with the sensor at the origin and z up, and the
    intensity in 0..1. Rows come in the order of firing, column by column, each from the highest
    beam to the lowest. With the default 64 beams and 2048 columns N is about 120 000; rays that
    meet nothing within 120 m, and a few echoes too weak to detect, are left out.
    """
    rng = np.random.default_rng(seed)
    ground, solids = street(rng)
    rays = _rays(beams, columns)
    hits = ground.cast(rays)
    distance, reflectivity = hits.distance, hits.reflectivity
    cosine = np.abs((hits.normal * rays).sum(axis=-1))
    for solid in solids:
        window = _columns_facing(solid, columns)
        hits = solid.cast(rays[window])
        nearer = hits.distance < distance[window]
        at = (window[:, None] * np.ones(beams, int))[nearer], np.nonzero(nearer)[1]
        distance[at] = hits.distance[nearer]
        reflectivity[at] = hits.reflectivity[nearer]
        cosine[at] = np.abs((hits.normal * rays[window]).sum(axis=-1))[nearer]
    return _echoes(rays, distance, reflectivity, cosine, rng)


def _rays(beams: int, columns: int) -> Array:
    """Unit vectors (columns, beams, 3); the first column is half a step off the x axis."""
    azimuth = (np.arange(columns)[:, None] + 0.5) * (2 * np.pi / columns)
    low, high = np.radians(ELEVATION_DEGREES)
    elevation = np.linspace(high, low, beams)[None, :]
    x, y = np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth)
    return np.stack([x, y, np.broadcast_to(np.sin(elevation), x.shape)], axis=-1)


def _columns_facing(solid: Shape, columns: int) -> npt.NDArray[np.intp]:
    """The columns whose rays can meet the solid's bounding circle."""
    x, y = solid.center
    away = np.hypot(x, y)
    if away <= solid.reach:
        return np.arange(columns)
    step = 2 * np.pi / columns
    half = np.arcsin(solid.reach / away)
    first, last = (np.arctan2(y, x) - half) / step - 0.5, (np.arctan2(y, x) + half) / step - 0.5
    return np.arange(np.ceil(first), np.floor(last) + 1).astype(np.intp) % columns


def _echoes(
    rays: Array, distance: Array, reflectivity: Array, cosine: Array, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Adds noise to what was met and drops what a detector would not see."""
    intensity = reflectivity * (0.25 + 0.75 * cosine)
    strength = intensity * (RANGE_METERS[1] / np.maximum(distance, 1)) ** 2
    seen = (distance > RANGE_METERS[0]) & (distance < RANGE_METERS[1])
    seen &= rng.random(distance.shape) < (1 - STRAY_LOSS) * -np.expm1(-8 * strength)
    noisy = distance[seen] + rng.normal(0, RANGE_NOISE_METERS, int(seen.sum()))
    shade = intensity[seen] * rng.normal(1, 0.06, len(noisy))
    cloud = np.column_stack([noisy[:, None] * rays[seen], np.clip(shade, 0, 1)])
    return cloud.astype(np.float32)
