"""Spatial index of the CPU neighbor searches against brute force, with every instruction set."""

import pytest
import torch
from tests.support import reference
from tests.support.clouds import ten_scans
from torch import Tensor

from farpoint_ops import ball_query, knn, nearest_sample

cpu_simd = torch.ops.farpoint._cpu_simd


@pytest.fixture
def points(large: Tensor) -> Tensor:
    """Float32 (1, N, 3) of thousands of points: enough for a tree."""
    return large[:, :: 12 if large.size(1) > 20_000 else 3].contiguous()


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


def test_every_level_gives_the_same_bits(narrower: str, points: Tensor) -> None:
    limited = answers(points)
    cpu_simd("")
    assert all(torch.equal(a, b) for a, b in zip(limited, answers(points), strict=True)), narrower


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
