"""CUDA sampling kernels emulated on the CPU, against brute force."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cuda_on_cpu import Method, brute_force, planned, sample

Cloud = NDArray[np.float32]
# Batches for each kernel and shape of cloud; more of them find rarer errors.
CASES = int(os.environ.get("FARPOINT_MODEL_CASES", "4"))


def uniform(rng: np.random.Generator, n: int) -> Cloud:
    return rng.random((n, 3), dtype=np.float32)


def surface(rng: np.random.Generator, n: int) -> Cloud:
    """Points of a unit sphere: all equally far from the center."""
    points = rng.standard_normal((n, 3))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def lattice(rng: np.random.Generator, n: int) -> Cloud:
    """Integer positions in a random order: nearly every distance is a tie."""
    side = int(np.ceil(n ** (1 / 3)))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)
    return rng.permutation(cells)[:n].astype(np.float32)


def duplicates(rng: np.random.Generator, n: int) -> Cloud:
    """Few distinct positions, so that sampling runs out of them."""
    return rng.integers(0, 3, (n, 3)).astype(np.float32)


def coincident(rng: np.random.Generator, n: int) -> Cloud:
    return np.repeat(rng.random((1, 3), dtype=np.float32), n, axis=0)


def with_holes(rng: np.random.Generator, n: int) -> Cloud:
    """A fifth of the rows has a coordinate that is not finite."""
    cloud = uniform(rng, n)
    bad = rng.random(n) < 0.2
    cloud[bad, rng.integers(0, 3, bad.sum())] = rng.choice([np.nan, np.inf, -np.inf], bad.sum())
    return cloud


def nothing_finite(rng: np.random.Generator, n: int) -> Cloud:
    return rng.choice(np.float32([np.nan, np.inf]), (n, 3))


def huge(rng: np.random.Generator, n: int) -> Cloud:
    """Squared distances that overflow to infinity."""
    return (rng.standard_normal((n, 3)) * 1e25).astype(np.float32)


def outliers(rng: np.random.Generator, n: int) -> Cloud:
    """A small cluster and a few points far away, each at its own scale."""
    cloud = uniform(rng, n)
    far = rng.integers(0, n, min(n, 6))
    cloud[far] *= (10.0 ** np.arange(2, 2 + len(far)))[:, None].astype(np.float32)
    return cloud


def nested(rng: np.random.Generator, n: int) -> Cloud:
    """Every point at a scale of its own: distances fall by far more than half at a time."""
    return (rng.standard_normal((n, 3)) * 4.0 ** -rng.integers(0, 60, (n, 1))).astype(np.float32)


SHAPES: tuple[Callable[[np.random.Generator, int], Cloud], ...] = (
    uniform,
    surface,
    lattice,
    duplicates,
    coincident,
    with_holes,
    nothing_finite,
    huge,
    outliers,
    nested,
)


def check(
    clouds: list[Cloud], m: list[int], start: list[int], method: Method, seed: int, head: int = 0
) -> None:
    indices, distances = sample(clouds, m, start, method, seed, head)
    for b, cloud in enumerate(clouds):
        expected, radii = brute_force(cloud, m[b], start[b])
        np.testing.assert_array_equal(indices[b], expected)
        np.testing.assert_array_equal(distances[b], radii)


def random_batch(
    rng: np.random.Generator, shape: Callable[[np.random.Generator, int], Cloud], most: int
) -> tuple[list[Cloud], list[int], list[int]]:
    sizes = rng.integers(1, most, rng.integers(1, 4))
    clouds = [shape(rng, int(n)) for n in sizes]
    m = [int(rng.integers(1, n + 1)) for n in sizes]
    return clouds, m, [int(rng.integers(0, n)) for n in sizes]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", list(Method))
def test_every_kernel_keeps_the_contract(method: Method, shape: Callable[..., Cloud]) -> None:
    rng = np.random.default_rng(7)
    for seed in range(CASES):
        check(*random_batch(rng, shape, 200), method, seed)


@pytest.mark.parametrize("n", [255, 256, 257, 1000, 1025, 2049])
def test_block_kernel_at_the_edges_of_its_variants(n: int) -> None:
    check([uniform(np.random.default_rng(n), n)], [8], [n - 1], Method.BLOCK, 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", [Method.LAZY, Method.LAZY_SORTED])
@pytest.mark.parametrize("head", [2, 7, 64, 1500])
def test_lazy_head_of_any_size_is_exact(
    head: int, method: Method, shape: Callable[..., Cloud]
) -> None:
    """Small heads: many rounds, windows that miss, bins that overflow, ties beyond the head."""
    rng = np.random.default_rng(head)
    for seed in range(max(1, CASES // 4)):
        n = int(rng.integers(600, 1800))
        m = int(rng.integers(20, 120 if head < 10 else 400))
        check([shape(rng, n)], [m], [int(rng.integers(0, n))], method, seed, head)


@pytest.mark.parametrize("shape", SHAPES)
def test_cluster_of_blocks_is_exact(shape: Callable[..., Cloud]) -> None:
    rng = np.random.default_rng(3)
    sizes = [int(n) for n in rng.integers(4097, 9000, 2)]
    clouds = [shape(rng, n) for n in sizes]
    check(clouds, [12, 40], [0, sizes[1] - 1], Method.CLUSTER, 5)


@pytest.mark.parametrize("seed", range(6))
def test_no_sample_is_pruned_that_matters(seed: int) -> None:
    """Small boxes and many pending samples: nearly every pair is left out, none wrongly."""
    cloud = uniform(np.random.default_rng(seed), 3000)
    check([cloud], [500], [0], Method.LAZY_SORTED, seed, 200)


@pytest.mark.parametrize(
    ("clouds", "points", "samples", "method"),
    [
        (1, 4096, 1024, Method.BLOCK),
        (1, 4097, 1024, Method.LAZY),
        (2, 12_288, 1024, Method.LAZY),
        (3, 12_288, 1024, Method.BLOCK),
        (3, 12_289, 1024, Method.LAZY),
        (1, 131_072, 63, Method.CLUSTER),
        (1, 131_073, 63, Method.LAZY),
        (1, 131_073, 3, Method.GRID),
        (1, 262_144, 16_384, Method.LAZY_SORTED),
    ],
)
def test_dispatch_rule(clouds: int, points: int, samples: int, method: Method) -> None:
    assert planned(clouds, points, samples) is method
