"""Where rays from the origin meet the solids of a scene."""

import numpy as np
import pytest

from farpoint_training.scenes.solids import (
    GLASS,
    WINDOW_DEPTH,
    Ellipsoid,
    Hits,
    Pole,
    Shape,
    box,
    building,
)


def toward(*targets: tuple[float, float, float]) -> np.ndarray:
    rays = np.array(targets, np.float64)
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def points(hits: Hits, rays: np.ndarray) -> np.ndarray:
    return hits.distance[:, None] * rays


@pytest.mark.parametrize(
    "solid",
    [
        box((10, 0), (-1, 1), (2, 4)),
        Ellipsoid((10, 0, 0), (1, 2, 1), 0.4),
        Pole((10, 0), 1.0, -1, 1, 0.4),
    ],
)
def test_the_near_side_is_met_and_what_lies_beside_or_behind_is_not(solid: Shape) -> None:
    above, below, beside, behind = (10, 0, 3), (10, 0, -3), (10, 5, 0), (-1, 0, 0)
    hits = solid.cast(toward((1, 0, 0), above, below, beside, behind))
    np.testing.assert_allclose(hits.distance, [9, *[np.inf] * 4])
    np.testing.assert_allclose(hits.normal[0], [-1, 0, 0], atol=1e-12)


def test_a_ray_along_a_face_never_gives_nan() -> None:
    beside, inside = (
        box((10, y), (-1, 1), (2, 2)).cast(toward((1, 0, 0))).distance[0] for y in (1.5, 0.5)
    )
    assert (beside, inside) == (np.inf, 9)


def test_glass_is_set_back_from_the_wall() -> None:
    block = building((15, 0), -1.7, (10, 20, 9), bay=2.5, reflectivity=0.3)
    rays = toward((10, 1.25, 0.3), (10, 2.5, 0.3), (10, 1.25, -1.6))
    hits = block.cast(rays)
    np.testing.assert_allclose(points(hits, rays)[:, 0], [10 + WINDOW_DEPTH, 10, 10])
    np.testing.assert_allclose(hits.reflectivity, [GLASS, 0.3, 0.3])
