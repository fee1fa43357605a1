"""SIMD backends of the CPU kernel: every instruction set and tree depth gives the same bits."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from farpoint_ops import farthest_point_sample, reference

cpu_simd = torch.ops.farpoint._cpu_simd


def _far_outlier(rng: np.random.Generator) -> np.ndarray:
    """All points but one fall into one cell of the first grid."""
    cloud = rng.normal(size=(20_000, 3))
    cloud[777] = 1e7
    return cloud


def _clusters(rng: np.random.Generator) -> np.ndarray:
    """Three orders of magnitude of density, and duplicates within."""
    scales = rng.choice([1e-4, 1e-2, 10.0], size=(12_000, 1))
    return np.repeat(rng.normal(size=(12_000, 3)) * scales, 2, axis=0)


def _overflowing_extent(rng: np.random.Generator) -> np.ndarray:
    """Sides longer than a float32 can tell, and a dense part the first grid cannot divide."""
    cloud = rng.normal(size=(12_000, 3))
    cloud[0], cloud[1] = -3e38, 3e38
    return cloud


def _subnormal(rng: np.random.Generator) -> np.ndarray:
    """Points that differ by a few of the smallest steps there are."""
    return rng.integers(0, 50, size=(9000, 3)) * 1.4e-45


def _lattice(rng: np.random.Generator) -> np.ndarray:
    """Masses of ties in every node of the tree."""
    grid = np.stack(np.meshgrid(*[np.arange(27)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)


def _three_levels(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(70_001, 3)) * [30, 10, 1]


CLOUDS = [_far_outlier, _clusters, _overflowing_extent, _subnormal, _lattice, _three_levels]


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__.strip("_"))
def test_equals_the_reference(make: Callable[[np.random.Generator], np.ndarray]) -> None:
    cloud = torch.from_numpy(make(np.random.default_rng(3)).astype(np.float32))[None]
    m = min(150, 3_000_000 // cloud.shape[1])
    indices, distances = farthest_point_sample(cloud, m, start=5, return_distances=True)
    expected = reference.furthest_point_sample(cloud, m, start=torch.tensor([5]))
    assert torch.equal(indices, expected[0])
    assert torch.equal(distances, expected[1])


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__.strip("_"))
def test_every_level_gives_the_same_bits(
    level: str, make: Callable[[np.random.Generator], np.ndarray]
) -> None:
    cloud = torch.from_numpy(make(np.random.default_rng(4)).astype(np.float32))[None]
    cloud = torch.cat([cloud, cloud[:, :9] * torch.nan], 1)
    m = 1500
    limited = farthest_point_sample(cloud, m, return_distances=True)
    cpu_simd("")
    best = farthest_point_sample(cloud, m, return_distances=True)
    assert all(torch.equal(a, b) for a, b in zip(limited, best, strict=True)), level


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33, 511, 513, 1025])
def test_sizes_around_the_width_of_a_leaf(n: int) -> None:
    cloud = torch.rand(1, n, 3, generator=torch.Generator().manual_seed(n))
    indices, distances = farthest_point_sample(cloud, n, return_distances=True)
    expected = reference.furthest_point_sample(cloud, n)
    assert torch.equal(indices, expected[0])
    assert torch.equal(distances, expected[1])


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="expected plain, avx2 or avx512, got sse9"):
        cpu_simd("sse9")
