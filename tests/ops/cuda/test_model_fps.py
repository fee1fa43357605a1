"""CUDA sampling kernels emulated on the CPU, against brute force."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from tests.support.awkward_clouds import SHAPES, Cloud, uniform
from tests.support.cuda_on_cpu import (
    Method,
    brute_force,
    call,
    planned,
    ragged_batch,
    sample,
)

# Batches for each kernel and shape of cloud; more of them find rarer errors.
CASES = int(os.environ.get("FARPOINT_MODEL_CASES", "4"))


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_samples": 2}, "more samples than max_samples"),
        ({"max_points": 9}, "a cloud exceeds max_points"),
        ({"samples": 9}, "sample_offsets go beyond the output"),
        ({"rows": 19}, "offsets go beyond xyz"),
    ],
)
@pytest.mark.parametrize("method", list(Method)[1:])
def test_sizes_that_the_device_contradicts_are_refused(
    method: Method, change: dict[str, int], message: str
) -> None:
    """A caller of the registered op gives sizes to the host and offsets to the device."""
    xyz = uniform(np.random.default_rng(0), 20)
    offsets, slots, starts = (np.array(v, np.int64) for v in ([0, 10, 20], [0, 4, 10], [0, 3]))
    indices, distances = np.zeros(10, np.int32), np.zeros(10, np.float32)
    batch = ragged_batch(xyz, offsets, slots, starts, indices, distances)
    for field, value in change.items():
        setattr(batch, field, value)
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        call("fps", batch, int(method), 0, 0)


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
        (1, 2048, 1024, Method.BLOCK),
        (1, 2049, 1024, Method.TREE),
        (1, 2049, 127, Method.BLOCK),
        (1, 4096, 127, Method.BLOCK),
        (1, 4097, 127, Method.TREE),
        (1, 4097, 21, Method.GRID),
        (1, 4097, 22, Method.TREE),
        (4, 1_000_000, 7, Method.GRID),
        (4, 1_000_000, 8, Method.TREE),
        (31, 2048, 512, Method.BLOCK),
        (32, 256, 64, Method.BLOCK),
        (32, 257, 64, Method.TREE),
        (1, 536_870_912, 1_000_000, Method.TREE),
        (1, 536_870_913, 1_000_000, Method.GRID),
    ],
)
def test_dispatch_rule(clouds: int, points: int, samples: int, method: Method) -> None:
    assert planned(clouds, points, samples) is method
