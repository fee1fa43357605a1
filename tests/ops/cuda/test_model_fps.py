"""CUDA sampling kernels emulated on the CPU, against brute force."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from tests.support.awkward_clouds import (
    SHAPES,
    Cloud,
    duplicates,
    huge,
    nothing_finite,
    uniform,
    with_holes,
)
from tests.support.cuda.on_cpu import (
    Method,
    TreeShape,
    brute_force,
    call,
    check_exact,
    planned,
    ragged_batch,
    sample,
)

# Batches for each kernel and shape of cloud; more of them find rarer errors.
CASES = int(os.environ.get("FARPOINT_MODEL_CASES", "4"))

# Where the model takes its time for more blocks or warps than a cloud needs.
SHAPE = {Method.PARTITIONED: TreeShape(1, 1, False, True, partitions=2)}


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
        check_exact(*random_batch(rng, shape, 200), method, seed, SHAPE.get(method))


@pytest.mark.parametrize("m", [1, 2, 90])
@pytest.mark.parametrize("method", list(Method)[1:])
def test_indices_alone_are_those_beside_distances(method: Method, m: int) -> None:
    clouds = [uniform(np.random.default_rng(1), 90), duplicates(np.random.default_rng(1), 100)]
    shape = SHAPE.get(method)
    expected, _ = sample(clouds, [m, m], [3, 99], method, shape=shape)
    given, _ = sample(clouds, [m, m], [3, 99], method, shape=shape, with_distances=False)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("shape", [uniform, duplicates, with_holes, nothing_finite, huge])
@pytest.mark.parametrize("method", list(Method)[1:])
def test_a_cloud_ends_where_the_radius_is_reached(
    method: Method, shape: Callable[..., Cloud]
) -> None:
    """At radii that occur, just below them, at none and beyond all; a negative one ends nothing."""
    rng = np.random.default_rng(2)
    n, m = 300, 120
    cloud = shape(rng, n)
    indices, distances = brute_force(cloud, m, 7)
    occurring = distances[[0, 1, 40, m - 1]]
    below = np.nextafter(occurring, np.float32(-1), dtype=np.float32)
    radii = np.float32([-1, 0, *occurring, *below, 1e38, np.inf])
    batch = [cloud] * len(radii), [m] * len(radii), [7] * len(radii)
    given = sample(*batch, method, 3, SHAPE.get(method), radius=radii)
    for radius, rows, reached in zip(radii, *given, strict=True):
        count = int((distances <= radius).argmax()) + 1 if (distances <= radius).any() else m
        np.testing.assert_array_equal(rows[:count], indices[:count])
        np.testing.assert_array_equal(reached[:count], distances[:count])
        assert (reached[count:] == 0).all()
        assert (rows[count:] < 0).all()
    alone, _ = sample(*batch, method, 3, SHAPE.get(method), radii, with_distances=False)
    np.testing.assert_array_equal(alone, given[0])


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
        call("fps", batch, int(method), 0)


# Clouds beside the one in question: none, or so many that processors share more than they have
# schedulers.
CROWDS = (0, 16)
EDGES = (1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096)


def check_block(cloud: Cloud, m: int, start: int, crowd: int) -> None:
    few = [uniform(np.random.default_rng(0), 40)] * crowd
    check_exact([cloud, *few], [m, *[2] * crowd], [start, *[1] * crowd], Method.BLOCK)


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("n", EDGES)
def test_block_kernel_at_the_edges_of_its_variants(n: int, crowd: int) -> None:
    check_block(uniform(np.random.default_rng(n), n), min(n, 8), n - 1, crowd)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "crowd"), [(400, 0), (900, 0), (900, 16), (1900, 16), (3900, 0)])
def test_block_kernel_with_points_in_every_item(
    n: int, crowd: int, shape: Callable[..., Cloud]
) -> None:
    """Ties within a thread, between lanes, groups of items and warps."""
    check_block(shape(np.random.default_rng(n), n), 60, n // 2, crowd)


@pytest.mark.parametrize(
    ("clouds", "points", "samples", "method"),
    [
        (4, 4096, 1024, Method.BLOCK),
        (4, 4097, 1024, Method.TREE),
        (5, 1024, 512, Method.BLOCK),
        (5, 1025, 512, Method.TREE),
        (9, 4096, 127, Method.BLOCK),
        (9, 4097, 127, Method.TREE),
        (1000, 1024, 512, Method.BLOCK),
        (1000, 1025, 512, Method.TREE),
        (1, 4097, 21, Method.GRID),
        (1, 4097, 22, Method.TREE),
        (4, 1_000_000, 7, Method.GRID),
        (4, 1_000_000, 8, Method.TREE),
        (1, 536_870_912, 1_000_000, Method.TREE),
        (1, 536_870_913, 1_000_000, Method.GRID),
    ],
)
def test_dispatch_rule(clouds: int, points: int, samples: int, method: Method) -> None:
    assert planned(clouds, points, samples).method is method
