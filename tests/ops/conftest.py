"""Fixtures that run the same test bodies on the CPU and on a GPU where there is one."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.support import clouds as shapes
from tests.support.clouds import street_scan

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """The number of threads is afterwards what it was."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def limited(request: pytest.FixtureRequest) -> Iterator[str]:
    """An instruction set that the CPU kernels are limited to."""
    from farpoint_ops import knn  # noqa: F401  registers the ops

    limit = torch.ops.farpoint._cpu_simd
    if limit(request.param) != request.param:
        limit("")
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    limit("")


level = pytest.fixture(params=["plain", "avx2", "avx512"], name="level")(limited)
# For comparisons with the widest.
narrower = pytest.fixture(params=["plain", "avx2"], name="narrower")(limited)

POINTS = 60_000
CORNER = (512_701.0, 5_403_550.0, 295.0)
Rng = np.random.Generator


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
    return np.array(CORNER) + rng.uniform(0, 30, size=(800, 3))


CLOUDS: dict[str, Callable[[Rng], np.ndarray]] = {
    "uniform": lambda rng: shapes.uniform(rng, 1500),
    "lattice": lambda rng: shapes.lattice(rng, 1331),
    "duplicates": lambda rng: shapes.duplicates(rng, 700),
    "coincident": lambda rng: shapes.coincident(rng, 300),
    "line": _line,
    "holes": _holes,
    "map": _utm,
    "huge": lambda rng: shapes.huge(rng, 200),
    "nested": lambda rng: shapes.nested(rng, 200),
    "two points": lambda _: np.array([[0, 0, 0], [1, 2, 3]]),
}


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest, device: torch.device) -> torch.Tensor:
    """Float32 (N, 3), one for each way a cloud can be awkward."""
    points = CLOUDS[request.param](np.random.default_rng(7))
    return torch.tensor(points, dtype=torch.float64).float().to(device)


def _clusters(rng: Rng) -> np.ndarray:
    """Three orders of magnitude of density, and duplicates within."""
    scales = rng.choice([1e-4, 1e-2, 10.0], size=(POINTS // 2, 1))
    return np.repeat(rng.normal(size=(POINTS // 2, 3)) * scales, 2, axis=0)


def _dense_core(rng: Rng) -> np.ndarray:
    """All samples but a few are of the sparse half of the points."""
    scales = np.repeat([1e-4, 10.0], POINTS // 2)[:, None]
    return rng.permutation(rng.normal(size=(POINTS, 3)) * scales)


def _far_outlier(rng: Rng) -> np.ndarray:
    """All points but one fall into one cell of the first grid."""
    cloud = rng.normal(size=(20_000, 3))
    cloud[777] = 1e7
    return cloud


def _overflow(rng: Rng) -> np.ndarray:
    """Infinite distances, and sides of boxes longer than float32 resolves."""
    cloud = rng.normal(size=(POINTS, 3))
    cloud[:40] *= 1e30
    cloud[0], cloud[1] = -3e38, 3e38
    return cloud


LARGE: dict[str, Callable[[Rng], np.ndarray]] = {
    "scan": lambda _: street_scan()[:, :3],
    "three levels": lambda rng: rng.normal(size=(70_001, 3)) * [30, 10, 1],
    # Masses of ties in every node of the tree, and across every border between parts.
    "lattice": lambda rng: shapes.lattice(rng, POINTS),
    # Fewer positions than samples: parts run out of points that are away from the samples.
    "duplicates": lambda rng: rng.integers(0, 12, size=(POINTS, 3)),
    "coincident": lambda rng: shapes.coincident(rng, POINTS),
    "line": lambda rng: rng.uniform(size=(POINTS, 1)) * [[1, 2, 3]],
    "clusters": _clusters,
    "dense core": _dense_core,
    # Map coordinates, so coarse in float32 that points merge.
    "map": lambda rng: np.array(CORNER) + rng.uniform(0, 40, size=(POINTS, 3)),
    "far outlier": _far_outlier,
    "overflow": _overflow,
    # Points that differ by a few of the smallest steps there are.
    "subnormal": lambda rng: rng.integers(0, 50, size=(9000, 3)) * 1.4e-45,
}


@pytest.fixture(params=LARGE)
def large(request: pytest.FixtureRequest) -> torch.Tensor:
    """Float32 (1, N, 3), the last nine rows not finite."""
    points = LARGE[request.param](np.random.default_rng(3)).astype(np.float32)
    cloud = torch.from_numpy(points)[None]
    return torch.cat([cloud, cloud[:, :9] * torch.nan], 1)
