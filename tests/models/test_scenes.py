"""The ray-cast LiDAR scan that the demo, tests and benchmarks share."""

import numpy as np
import pytest

from farpoint_training.scenes import lidar_scan


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
