"""Procedural shapes: what a family is, and what is drawn anew for each cloud."""

import subprocess
import sys

import numpy as np
import pytest

from farpoint_training.families import (
    FAMILIES,
    HELD_OUT,
    TRAINING,
    box,
    revolve,
    sample_shape,
    triangles,
    tube,
)


def area(patches: list[np.ndarray]) -> float:
    a, b, c = triangles(patches).transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_numpy_is_enough() -> None:
    code = "import sys, farpoint_training.families; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_training_and_held_out_families_are_apart() -> None:
    assert set(TRAINING) | set(HELD_OUT) == set(FAMILIES)
    assert not set(TRAINING) & set(HELD_OUT)


def test_patches_have_the_area_of_their_surface() -> None:
    latitude = np.linspace(-np.pi / 2, np.pi / 2, 64)
    sphere = revolve(np.column_stack([np.cos(latitude), np.sin(latitude)]), sides=64)
    torus = tube(lambda u: (0 * u + 2.0, 2 * np.pi * u), 0.0, 0.5)
    assert area([sphere]) == pytest.approx(4 * np.pi, rel=0.01)
    assert area([torus]) == pytest.approx(4 * np.pi**2 * 2 * 0.5, rel=0.03)
    assert area(box((1, 2, 3), (1, 2, 3))) == pytest.approx(22)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("partial", [False, True])
def test_a_shape_is_a_float32_cloud_of_about_its_size(name: str, partial: bool) -> None:
    cloud = sample_shape(name, 400, np.random.default_rng(0), partial=partial)
    assert cloud.shape == (400, 3)
    assert cloud.dtype == np.float32
    assert np.isfinite(cloud).all()
    assert 0.1 < np.ptp(cloud, axis=0).max() < 8
    assert len(np.unique(cloud, axis=0)) == 400


def test_the_generator_decides_everything() -> None:
    def draw(seed: int) -> np.ndarray:
        return sample_shape("torus", 100, np.random.default_rng(seed))

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_families_differ_from_each_other() -> None:
    """The spread of distances from the middle alone tells most of them apart."""

    def spread(name: str) -> np.ndarray:
        cloud = sample_shape(name, 2000, np.random.default_rng(3)).astype(np.float64)
        away = np.linalg.norm(cloud - cloud.mean(0), axis=1)
        return np.quantile(away / away.mean(), [0.1, 0.5, 0.9])

    spreads = np.array([spread(name) for name in FAMILIES])
    gaps = np.abs(spreads[:, None] - spreads[None]).max(-1) + np.eye(len(spreads))
    assert (gaps.min(1) > 1e-3).all()


def test_density_varies_over_a_shape() -> None:
    """Halves of a sphere hold unequal shares of its points, as they would not if it were even."""
    shares = []
    for seed in range(20):
        cloud = sample_shape("sphere", 500, np.random.default_rng(seed))
        middle = (cloud.max(0) + cloud.min(0)) / 2
        shares.append(np.abs((cloud > middle).mean(0) - 0.5).max())
    assert np.mean(shares) > 0.1


def test_a_partial_shape_is_missing_a_side() -> None:
    """Fewer octants of a sphere are filled."""
    filled = {
        partial: sum(
            len(np.unique(np.sign(cloud - (cloud.max(0) + cloud.min(0)) / 2), axis=0))
            for seed in range(30)
            for cloud in [sample_shape("sphere", 64, np.random.default_rng(seed), partial=partial)]
        )
        for partial in (False, True)
    }
    assert filled[True] < filled[False]
