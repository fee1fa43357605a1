"""The ray-cast LiDAR scan that the demo, tests and benchmarks share."""

import subprocess
import sys

import numpy as np
import pytest

from farpoint_training.scenes import lidar_scan, sensor


@pytest.fixture(scope="module")
def scan() -> np.ndarray:
    return lidar_scan()


def ranges(scan: np.ndarray) -> np.ndarray:
    return np.linalg.norm(scan[:, :3].astype(np.float64), axis=1)


def test_it_is_a_float32_cloud_with_intensity_in_0_to_1(scan: np.ndarray) -> None:
    assert scan.dtype == np.float32
    assert scan.shape[1] == 4
    assert np.isfinite(scan).all()
    assert scan[:, 3].min() >= 0
    assert scan[:, 3].max() <= 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_about_120_000_rays_come_back(seed: int) -> None:
    assert 110_000 < len(lidar_scan(seed)) < 130_000


def test_the_seed_decides_everything(scan: np.ndarray) -> None:
    np.testing.assert_array_equal(scan, lidar_scan(0))
    assert scan.shape != lidar_scan(1).shape


def test_ranges_stay_within_the_sensor_s_reach(scan: np.ndarray) -> None:
    assert ranges(scan).min() > 1
    assert ranges(scan).max() < 120.1


def test_each_point_lies_on_one_of_64_rings(scan: np.ndarray) -> None:
    elevation = np.degrees(np.arcsin(scan[:, 2] / ranges(scan)))
    ring = (15 - elevation) / (40 / 63)
    np.testing.assert_allclose(ring, ring.round(), atol=1e-3)
    assert set(ring.round().astype(int)) == set(range(64))


def test_ranges_are_noisy_by_about_a_centimeter(
    scan: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensor, "RANGE_NOISE_METERS", 0.0)
    noise = ranges(scan) - ranges(lidar_scan())
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.012], atol=2e-4)


def test_about_one_echo_in_a_hundred_is_lost(scan: np.ndarray) -> None:
    lowest = np.arcsin(scan[:, 2] / ranges(scan)) < np.radians(-24.9)
    assert 2048 - 41 < lowest.sum() < 2048 - 5


def test_rows_come_in_the_order_of_firing(scan: np.ndarray) -> None:
    turn = np.arctan2(scan[:, 1], scan[:, 0]) % (2 * np.pi)
    column = np.floor(turn / (2 * np.pi / 2048) + 1e-3)
    assert (np.diff(column) >= 0).all()
    elevation = scan[:, 2] / ranges(scan)
    same_column = np.diff(column) == 0
    assert (np.diff(elevation)[same_column] < 0).all()


def test_beams_and_columns_set_the_number_of_rays() -> None:
    sparse = lidar_scan(beams=16, columns=512)
    assert 0.8 * 16 * 512 < len(sparse) < 16 * 512


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


def test_nothing_is_seen_below_the_ground(scan: np.ndarray) -> None:
    assert scan[:, 2].min() > -2.1


def test_no_point_is_exactly_repeated(scan: np.ndarray) -> None:
    assert len(np.unique(scan[:, :3], axis=0)) == len(scan)


def test_it_needs_numpy_alone() -> None:
    code = (
        "import sys, farpoint_training.scenes as s; assert not {'torch', 'grpc'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
