"""Clouds to train on: procedural shapes, and the ray-cast scan that demo and benchmarks share."""

import numpy as np
import pytest

from farpoint_training import families
from farpoint_training.families import FAMILIES, revolve, sample_shape, triangles, tube
from farpoint_training.scenes import lidar_scan
from farpoint_training.scenes.solids import (
    GLASS,
    WINDOW_DEPTH,
    Ellipsoid,
    Pole,
    Shape,
    box,
    building,
)


def area(patches: list[np.ndarray]) -> float:
    a, b, c = triangles(patches).transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_patches_have_the_area_of_their_surface() -> None:
    latitude = np.linspace(-np.pi / 2, np.pi / 2, 64)
    sphere = revolve(np.column_stack([np.cos(latitude), np.sin(latitude)]), sides=64)
    torus = tube(lambda u: (0 * u + 2.0, 2 * np.pi * u), 0.0, 0.5)
    assert area([sphere]) == pytest.approx(4 * np.pi, rel=0.01)
    assert area([torus]) == pytest.approx(4 * np.pi**2 * 2 * 0.5, rel=0.03)
    assert area(families.box((1, 2, 3), (1, 2, 3))) == pytest.approx(22)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("partial", [False, True])
def test_a_shape_is_a_float32_cloud_of_about_its_size(name: str, partial: bool) -> None:
    cloud = sample_shape(name, 400, np.random.default_rng(0), partial=partial)
    assert cloud.shape == (400, 3)
    assert cloud.dtype == np.float32
    assert np.isfinite(cloud).all()
    assert 0.1 < np.ptp(cloud, axis=0).max() < 8
    assert len(np.unique(cloud, axis=0)) == 400


@pytest.fixture(scope="module")
def scan() -> np.ndarray:
    return lidar_scan()


def ranges(scan: np.ndarray) -> np.ndarray:
    return np.linalg.norm(scan[:, :3].astype(np.float64), axis=1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_about_120_000_rays_come_back(seed: int) -> None:
    assert 110_000 < len(lidar_scan(seed)) < 130_000


def test_the_seed_decides_everything(scan: np.ndarray) -> None:
    np.testing.assert_array_equal(scan, lidar_scan(0))
    assert scan.shape != lidar_scan(1).shape


def test_each_point_lies_on_one_of_64_rings(scan: np.ndarray) -> None:
    elevation = np.degrees(np.arcsin(scan[:, 2] / ranges(scan)))
    ring = (15 - elevation) / (40 / 63)
    np.testing.assert_allclose(ring, ring.round(), atol=1e-3)
    assert set(ring.round().astype(int)) == set(range(64))


def test_rows_come_in_the_order_of_firing(scan: np.ndarray) -> None:
    turn = np.arctan2(scan[:, 1], scan[:, 0]) % (2 * np.pi)
    column = np.floor(turn / (2 * np.pi / 2048) + 1e-3)
    assert (np.diff(column) >= 0).all()
    elevation = scan[:, 2] / ranges(scan)
    same_column = np.diff(column) == 0
    assert (np.diff(elevation)[same_column] < 0).all()


@pytest.mark.parametrize("beams", [1, 5, 9, 41])
def test_a_beam_may_be_level(beams: int) -> None:
    assert np.isfinite(lidar_scan(beams=beams, columns=360)).all()


def test_the_street_has_a_road_facades_and_things_between(scan: np.ndarray) -> None:
    x, y, z, _ = scan.T
    near = np.abs(x) < 20
    road = near & (np.abs(y) < 3) & (z < -1.6)
    np.testing.assert_allclose(z[road], -1.85, atol=0.15)
    facade = near & (np.abs(y) > 10.4) & (np.abs(y) < 12) & (z > 1)
    parked = near & (np.abs(y) > 4) & (np.abs(y) < 6.4) & (z > -1.4) & (z < 0)
    assert min(road.sum(), facade.sum(), parked.sum()) > 1000


def toward(*targets: tuple[float, float, float]) -> np.ndarray:
    rays = np.array(targets, np.float64)
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "solid",
    [
        box((10, 0), (-1, 1), (2, 4)),
        Ellipsoid((10, 0, 0), (1, 2, 1), 0.4),
        Pole((10, 0), 1.0, -1, 1, 0.4),
    ],
)
def test_the_near_side_is_met_and_what_lies_elsewhere_is_not(solid: Shape) -> None:
    above, below, left, behind = (10, 0, 3), (10, 0, -3), (10, 5, 0), (-1, 0, 0)
    hits = solid.cast(toward((1, 0, 0), above, below, left, behind))
    np.testing.assert_allclose(hits.distance, [9, *[np.inf] * 4])
    np.testing.assert_allclose(hits.normal[0], [-1, 0, 0], atol=1e-12)


@pytest.mark.parametrize(("y", "distance"), [(1.5, np.inf), (0.5, 9)])
def test_a_ray_along_a_face_passes_it_or_meets_the_next_one(y: float, distance: float) -> None:
    assert box((10, y), (-1, 1), (2, 2)).cast(toward((1, 0, 0))).distance == distance


def test_glass_is_set_back_from_the_wall() -> None:
    block = building((15, 0), -1.7, (10, 20, 9), bay=2.5, reflectivity=0.3)
    rays = toward((10, 1.25, 0.3), (10, 2.5, 0.3), (10, 1.25, -1.6))
    hits = block.cast(rays)
    np.testing.assert_allclose(hits.distance * rays[:, 0], [10 + WINDOW_DEPTH, 10, 10])
    np.testing.assert_allclose(hits.reflectivity, [GLASS, 0.3, 0.3])
