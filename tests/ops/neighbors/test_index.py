"""Spatial index of the CPU neighbor searches against brute force, with every instruction set."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan, ten_scans, whole_street_scan
from torch import Tensor

from farpoint_ops import ball_query, farthest_point_sample, knn, nearest_sample, reference

cpu_simd = torch.ops.farpoint._cpu_simd
Points = np.ndarray


def _uniform(rng: np.random.Generator) -> Points:
    return rng.normal(size=(6000, 3)) * [30, 10, 1]


def _lattice(rng: np.random.Generator) -> Points:
    """Ties in every box, many of them with points of lower rows."""
    grid = np.stack(np.meshgrid(*[np.arange(17)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)


def _clusters(rng: np.random.Generator) -> Points:
    """Three orders of magnitude of density, each point twice, a tenth not finite."""
    scales = rng.choice([1e-4, 1e-2, 10.0], size=(2500, 1))
    cloud = rng.permutation(np.repeat(rng.normal(size=(2500, 3)) * scales, 2, axis=0))
    cloud[rng.random(5000) < 0.1, 1] = rng.choice([np.nan, np.inf])
    return cloud


def _outlier(rng: np.random.Generator) -> Points:
    cloud = rng.normal(size=(5000, 3))
    cloud[777], cloud[778] = 1e30, -1e30
    return cloud


def _equal_points(_: np.random.Generator) -> Points:
    return np.full((4000, 3), 0.1)


def _utm(rng: np.random.Generator) -> Points:
    return np.array([512_701.0, 5_403_550.0, 295.0]) + rng.uniform(0, 40, size=(5000, 3))


def _street(_: np.random.Generator) -> Points:
    return street_scan()[::5, :3]


CLOUDS = [_uniform, _lattice, _clusters, _outlier, _equal_points, _utm, _street]


@pytest.fixture(params=CLOUDS, ids=lambda make: make.__name__.strip("_"))
def points(request: pytest.FixtureRequest) -> Tensor:
    """Float32 (1, N, 3), large enough for a tree."""
    make: Callable[[np.random.Generator], Points] = request.param
    return torch.from_numpy(make(np.random.default_rng(5)).astype(np.float32))[None]


def compare(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...], queries: slice) -> None:
    for a, e in zip(actual, expected, strict=True):
        assert torch.equal(a[:, queries], e)


def radii(points: Tensor) -> tuple[float, float]:
    """A ball of few points and one of most."""
    finite = points[points.isfinite().all(-1)].double()
    spread = (finite.quantile(0.9, 0) - finite.quantile(0.1, 0)).max().item()
    return spread / 50 + 1e-3, spread * 3 + 1


def in_a_row(points: Tensor) -> Tensor:
    """Queries close to the ones before them, some missing: these are searched for together."""
    queries = points[:, points[0, :, 0].argsort(stable=True)]
    queries[:, 40::300] = torch.nan
    return queries


def test_equals_the_comparison_of_every_pair(points: Tensor) -> None:
    """All points ask, so that a tree is built; every 97th answer is compared."""
    some = slice(3, None, 97)
    nearest = reference.knn(points, points[:, some], 70)
    for k in (1, 3, 8, 24, 64, 70):  # on both sides of every change of method
        compare(knn(points, points, k), tuple(t[..., :k] for t in nearest), some)
    for radius in radii(points):
        expected = reference.ball_query(points, points[:, some], radius, 20)
        compare(ball_query(points, points, radius, 20), expected, some)
    samples = points[:, ::4]
    expected = reference.nearest_sample(points[:, some], samples)
    compare(nearest_sample(points, samples), expected, some)


@pytest.mark.parametrize("step", [5, 60])
def test_the_nearest_of_queries_in_a_row(points: Tensor, step: int) -> None:
    queries, samples, some = in_a_row(points), points[:, ::step], slice(2, None, 41)
    compare(knn(samples, queries, 1), reference.knn(samples, queries[:, some], 1), some)
    expected = reference.nearest_sample(queries[:, some], samples)
    compare(nearest_sample(queries, samples), expected, some)


def answers(points: Tensor) -> list[Tensor]:
    """Every kind of search over some of the points, with trees."""
    some, small = points[:, ::3], radii(points)[0]
    return [
        *knn(points, some, 1),
        *knn(points, some, 11),
        *ball_query(points, some, small, 7),
        *nearest_sample(points, some),
        *nearest_sample(in_a_row(points), points[:, ::7]),
    ]


def test_every_level_gives_the_same_bits(level: str, points: Tensor) -> None:
    limited = answers(points)
    cpu_simd("")
    assert all(torch.equal(a, b) for a, b in zip(limited, answers(points), strict=True)), level


@pytest.mark.parametrize("scan_of", [street_scan, whole_street_scan])
def test_collapsed_sets_of_a_street_scan(scan_of: Callable[[], Points]) -> None:
    """Each point in one of 4096 collapsed sets, and the sets' radius known another way."""
    scan = torch.from_numpy(scan_of()[:, :3].copy())[None]
    idx, radii = farthest_point_sample(scan, 4096, return_distances=True)
    samples = scan[:, idx[0].long()]
    assignment, squared = nearest_sample(scan, samples)
    assert torch.equal(squared.max().sqrt(), radii[0, -1])
    assert assignment[0, idx[0].long()].tolist() == list(range(4096))
    some = slice(0, None, 997)
    expected = reference.nearest_sample(scan[:, some], samples)
    compare((assignment, squared), expected, some)


def test_a_padded_batch_of_scans() -> None:
    scans = [torch.from_numpy(scan[:, :3].copy()) for scan in ten_scans()]
    lengths = [len(scan) for scan in scans]
    padded = torch.nn.utils.rnn.pad_sequence(scans, batch_first=True, padding_value=torch.nan)
    idx, squared = knn(padded, padded[:, :2000], 8, lengths=lengths)
    for b, scan in enumerate(scans):
        alone = knn(scan[None], scan[None, :2000], 8)
        assert torch.equal(idx[b], alone[0][0])
        assert torch.equal(squared[b], alone[1][0])


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 511, 512, 513, 1023, 1025])
def test_sizes_around_the_width_of_a_leaf(n: int) -> None:
    cloud = torch.rand(1, n, 3, generator=torch.Generator().manual_seed(n))
    queries = cloud.repeat(1, 3000 // n + 1, 1)
    k, some = min(n, 6), slice(max(0, n - 70), n)
    compare(knn(cloud, queries, k), reference.knn(cloud, cloud[:, some], k), some)
    expected = reference.ball_query(cloud, cloud[:, some], 0.3, k)
    compare(ball_query(cloud, queries, 0.3, k), expected, some)
