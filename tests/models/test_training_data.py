"""Clouds to train on: procedural shapes, and the ray-cast scan that demo and benchmarks share."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from farpoint_training import families
from farpoint_training.families import FAMILIES, revolve, sample_shape, triangles, tube
from farpoint_training.scenes import lidar_scan

ROOT = Path(__file__).parents[2]


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


@pytest.mark.parametrize("beams", [1, 5, 9, 41])
def test_a_beam_may_be_level(beams: int) -> None:
    assert np.isfinite(lidar_scan(beams=beams, columns=360)).all()


def test_the_scan_is_the_street_of_the_page() -> None:
    """To the centimeter: the demo, benchmarks and the page show the same 120 000 points."""
    content = gzip.decompress((ROOT / "web/src/assets/street.bin").read_bytes())
    count = len(content) // 7
    steps = np.frombuffer(content, "<i2", 3 * count).reshape(3, count)
    scan = lidar_scan()
    assert scan.dtype == np.float32
    np.testing.assert_array_equal(np.rint(scan[:, :3] * 100), steps.cumsum(1, np.int64).T)
    shades = np.frombuffer(content, np.uint8, offset=6 * count)
    np.testing.assert_array_equal(np.rint(scan[:, 3] * 255), shades)
    assert len(lidar_scan(1)) != len(scan)
