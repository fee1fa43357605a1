"""Procedural shapes: what a family is, and what is drawn anew for each cloud."""

import numpy as np
import pytest

from farpoint_training.families import (
    FAMILIES,
    box,
    revolve,
    sample_shape,
    triangles,
    tube,
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
