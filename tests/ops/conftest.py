"""Fixtures that run the same test bodies on the CPU and on a GPU where there is one."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan, whole_street_scan

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(params=["plain", "avx2", "avx512"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """An instruction set that the CPU kernels are limited to."""
    from farpoint_ops import knn  # noqa: F401  registers the ops

    limit = torch.ops.farpoint._cpu_simd
    if limit(request.param) != request.param:
        limit("")
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    limit("")


POINTS = 60_000
Rng = np.random.Generator


def _random(rng: Rng) -> np.ndarray:
    return rng.normal(size=(1500, 3))


def _lattice(rng: Rng) -> np.ndarray:
    """Every distance ties with many others."""
    grid = np.stack(np.meshgrid(*[np.arange(10)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)


def _duplicates(rng: Rng) -> np.ndarray:
    return rng.integers(0, 4, size=(700, 3))


def _equal_points(_: Rng) -> np.ndarray:
    return np.full((300, 3), 2.5)


def _line(rng: Rng) -> np.ndarray:
    return rng.normal(size=(900, 1)) * [[0.0, 0.0, 1.0]]


def _holes(rng: Rng) -> np.ndarray:
    """NaN and infinities among the points, the first row included."""
    cloud = rng.normal(size=(400, 3))
    cloud[rng.random((400, 3)) < 0.1] = np.nan
    cloud[::17, 1] = np.inf
    cloud[5::31, 2] = -np.inf
    cloud[0, 0] = np.nan
    return cloud


def _utm(rng: Rng) -> np.ndarray:
    """Map coordinates, so coarse in float32 that points merge and distances tie."""
    corner = np.array([512_701.0, 5_403_550.0, 295.0])
    return corner + rng.uniform(0, 30, size=(800, 3))


def _huge(rng: Rng) -> np.ndarray:
    """Squared distances that overflow to infinity, and some that underflow."""
    cloud = rng.normal(size=(200, 3)) * 1e20
    cloud[::2] *= 1e-45
    return cloud


def _two_points(_: Rng) -> np.ndarray:
    return np.array([[0, 0, 0], [1, 2, 3]])


CLOUDS = {
    f.__name__.strip("_"): f
    for f in (_random, _lattice, _duplicates, _equal_points, _line, _holes, _utm, _huge)
} | {"two_points": _two_points}


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest, device: torch.device) -> torch.Tensor:
    """Float32 (N, 3), one for each way a cloud can be awkward."""
    points = CLOUDS[request.param](np.random.default_rng(7))
    return torch.tensor(points, dtype=torch.float64).float().to(device)


def _scan(_: Rng) -> np.ndarray:
    return street_scan()[:, :3]


def _whole_scan(_: Rng) -> np.ndarray:
    return whole_street_scan()[:, :3]


def _three_levels(rng: Rng) -> np.ndarray:
    return rng.normal(size=(70_001, 3)) * [30, 10, 1]


def _large_lattice(rng: Rng) -> np.ndarray:
    """Masses of ties in every node of the tree, and across every border between parts."""
    grid = np.stack(np.meshgrid(*[np.arange(40)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)[:POINTS]


def _large_duplicates(rng: Rng) -> np.ndarray:
    """Fewer positions than samples: parts run out of points that are away from the samples."""
    return rng.integers(0, 12, size=(POINTS, 3))


def _equal(_: Rng) -> np.ndarray:
    return np.ones((POINTS, 3))


def _large_line(rng: Rng) -> np.ndarray:
    return rng.uniform(size=(POINTS, 1)) * [[1, 2, 3]]


def _clusters(rng: Rng) -> np.ndarray:
    """Three orders of magnitude of density, and duplicates within."""
    scales = rng.choice([1e-4, 1e-2, 10.0], size=(POINTS // 2, 1))
    return np.repeat(rng.normal(size=(POINTS // 2, 3)) * scales, 2, axis=0)


def _dense_core(rng: Rng) -> np.ndarray:
    """All samples but a few are of the sparse half of the points."""
    scales = np.repeat([1e-4, 10.0], POINTS // 2)[:, None]
    return rng.permutation(rng.normal(size=(POINTS, 3)) * scales)


def _far_away(rng: Rng) -> np.ndarray:
    """Map coordinates, so coarse in float32 that points merge."""
    return np.array([512_701.0, 5_403_550.0, 295.0]) + rng.uniform(0, 40, size=(POINTS, 3))


def _far_outlier(rng: Rng) -> np.ndarray:
    """All points but one fall into one cell of the first grid."""
    cloud = rng.normal(size=(20_000, 3))
    cloud[777] = 1e7
    return cloud


def _overflow(rng: Rng) -> np.ndarray:
    """Infinite distances, and sides of boxes longer than a float32 can tell."""
    cloud = rng.normal(size=(POINTS, 3))
    cloud[:40] *= 1e30
    cloud[0], cloud[1] = -3e38, 3e38
    return cloud


def _subnormal(rng: Rng) -> np.ndarray:
    """Points that differ by a few of the smallest steps there are."""
    return rng.integers(0, 50, size=(9000, 3)) * 1.4e-45


LARGE: list[Callable[[Rng], np.ndarray]] = [
    *(
        _scan,
        _whole_scan,
        _three_levels,
        _large_lattice,
        _large_duplicates,
        _equal,
        _large_line,
        _clusters,
    ),
    *(_dense_core, _far_away, _far_outlier, _overflow, _subnormal),
]


@pytest.fixture(params=LARGE, ids=lambda make: make.__name__.removeprefix("_large").strip("_"))
def large(request: pytest.FixtureRequest) -> torch.Tensor:
    """Float32 (1, N, 3), the last nine rows not finite."""
    cloud = torch.from_numpy(request.param(np.random.default_rng(3)).astype(np.float32))[None]
    return torch.cat([cloud, cloud[:, :9] * torch.nan], 1)
