"""Where rays from the origin meet the solids of a scene."""

import numpy as np
import pytest

from farpoint_training.scenes.solids import (
    CURB,
    GLASS,
    WINDOW_DEPTH,
    Ellipsoid,
    Ground,
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


def test_the_normal_of_an_ellipsoid_stands_on_its_surface() -> None:
    ellipsoid = Ellipsoid((0, 10, 0), (4, 1, 2), 0.4)
    rays = toward((1, 9.5, 0.5), (1.001, 9.5, 0.5), (1, 9.5, 0.501))
    hits = ellipsoid.cast(rays)
    here, right, up = points(hits, rays)
    np.testing.assert_allclose(
        [(right - here) @ hits.normal[0], (up - here) @ hits.normal[0]], 0, atol=1e-6
    )


def test_a_turned_box_is_met_on_its_corner() -> None:
    hits = box((10, 0), (-1, 1), (2, 2), yaw=np.pi / 4).cast(toward((1, 0.001, 0)))
    np.testing.assert_allclose(hits.distance, 10 - np.sqrt(2), atol=0.02)


def test_a_leaning_wall_recedes_with_height() -> None:
    rays = toward((10, 0, 0.5), (10, 0, 1.0))
    low, high = points(box((10, 0), (0, 2), (4, 4), taper=0.5).cast(rays), rays)
    np.testing.assert_allclose([low[0], high[0]], [8 + 0.5 * low[2], 8 + 0.5 * high[2]])


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


def test_a_slanting_ray_ends_on_the_frame_of_a_window() -> None:
    block = building((15, 0), -1.7, (10, 40, 9), bay=2.5, reflectivity=0.3)
    rays = toward((10, 16.85, 0.3))
    hits = block.cast(rays)
    x, y, _ = points(hits, rays)[0]
    np.testing.assert_allclose([y, hits.reflectivity[0]], [16.9, 0.3])
    assert 10 < x < 10 + WINDOW_DEPTH


def test_the_curb_rises_between_road_and_sidewalk() -> None:
    ground = Ground(-2.0, 5.0, (50.0, 60.0), (0.0, 0.0))
    rays = toward(*[(0, 5, z) for z in np.linspace(-2.3, -1.7, 200)])
    y, z = points(ground.cast(rays), rays)[:, 1:].T
    road, walk = z[y < 4.95], z[y > 5.05]
    on_curb = z[np.abs(y - 5) < 0.01]
    assert road.max() < walk.min()
    assert np.ptp(on_curb) > 0.8 * CURB


def test_the_road_follows_its_relief() -> None:
    ground = Ground(-2.0, 5.0, (50.0, 60.0), (1.0, 2.0))
    rays = toward(*[(x, 1, -1) for x in np.linspace(4, 20, 50)])
    x, y, z = points(ground.cast(rays), rays).T
    np.testing.assert_allclose(z, -2 + ground.relief(x, y), atol=1e-6)
    assert np.ptp(z) > 0.02


def test_rays_that_do_not_point_down_miss_the_ground() -> None:
    ground = Ground(-2.0, 5.0, (50.0, 60.0), (0.0, 0.0))
    assert np.isinf(ground.cast(toward((1, 0, 0), (1, 0, 0.1))).distance).all()
