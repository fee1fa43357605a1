"""Fixtures that run the same test bodies on the CPU and on a GPU where there is one."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

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


def _random(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(1500, 3))


def _lattice(rng: np.random.Generator) -> np.ndarray:
    """Every distance ties with many others."""
    grid = np.stack(np.meshgrid(*[np.arange(11)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)


def _duplicates(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 4, size=(700, 3))


def _equal_points(_: np.random.Generator) -> np.ndarray:
    return np.full((300, 3), 2.5)


def _line(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(900, 1)) * [[0.0, 0.0, 1.0]]


def _holes(rng: np.random.Generator) -> np.ndarray:
    """NaN and infinities among the points, the first row included."""
    cloud = rng.normal(size=(400, 3))
    cloud[rng.random((400, 3)) < 0.1] = np.nan
    cloud[::17, 1] = np.inf
    cloud[5::31, 2] = -np.inf
    cloud[0, 0] = np.nan
    return cloud


def _utm(rng: np.random.Generator) -> np.ndarray:
    """Map coordinates, so coarse in float32 that points merge and distances tie."""
    corner = np.array([512_701.0, 5_403_550.0, 295.0])
    return corner + rng.uniform(0, 30, size=(800, 3))


def _huge(rng: np.random.Generator) -> np.ndarray:
    """Squared distances that overflow to infinity, and some that underflow."""
    cloud = rng.normal(size=(200, 3)) * 1e20
    cloud[::2] *= 1e-45
    return cloud


def _two_points(_: np.random.Generator) -> np.ndarray:
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
