"""One cloud by several blocks of the emulated GPU: exact, whichever block is ahead.

Blocks of the model run at once, their warps in a random order and at random speeds, so a
partition that takes a point, or applies a sample of another, at the wrong time shows.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from tests.support.awkward_clouds import SHAPES, Cloud, duplicates, lattice, uniform
from tests.support.cuda.on_cpu import Method, Plan, TreeShape, check_exact, planned

# One to four warps in a partition, two to 32 of them, registers and shared memory, both sorts.
SHAPES_OF_PARTITIONS = (
    TreeShape(1, 1, False, True, partitions=2),
    TreeShape(2, 1, False, False, partitions=4),
    TreeShape(1, 1, False, True, partitions=8),
    TreeShape(4, 2, True, True, partitions=2),
)
MANY = TreeShape(1, 1, False, True, partitions=32)


@pytest.mark.parametrize("cloud", SHAPES)
@pytest.mark.parametrize("shape", SHAPES_OF_PARTITIONS)
def test_partitions_are_exact(shape: TreeShape, cloud: Callable[..., Cloud]) -> None:
    """Also where a partition has no point, and where clouds do not fit on the device together."""
    rng = np.random.default_rng(5)
    sizes = [400, 1, 233]
    check_exact(
        [cloud(rng, n) for n in sizes], [40, 1, 60], [5, 0, 232], shape=shape, seed=sum(shape)
    )


@pytest.mark.parametrize("cloud", [uniform, lattice, duplicates])
def test_all_points_are_sampled_in_partitions(cloud: Callable[..., Cloud]) -> None:
    check_exact([cloud(np.random.default_rng(1), 300)], [300], [17], shape=SHAPES_OF_PARTITIONS[0])


def test_more_partitions_than_a_warp_has_lanes_for() -> None:
    """Each partition reads one sample of each other at a time."""
    rng = np.random.default_rng(2)
    check_exact([uniform(rng, 1100), lattice(rng, 1000)], [40, 40], [0, 1], shape=MANY)


def test_partitions_of_several_groups_of_leaves() -> None:
    cloud = uniform(np.random.default_rng(3), 5000)
    check_exact([cloud], [60], [4999], shape=TreeShape(4, 1, False, True, partitions=2))


@pytest.fixture(scope="module")
def planned_with_partitions() -> Iterator[Callable[..., Plan]]:
    """Plans on the 132 processors of an H100 by a process that allows partitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARPOINT_FPS_PARTS", "1")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            yield lambda *sizes: process.submit(planned, *sizes, processors=132).result()


def test_one_scan_is_sampled_by_one_block_unless_partitions_are_allowed() -> None:
    assert planned(1, 131_072, 16_384, processors=132).method is Method.TREE


@pytest.mark.parametrize(
    ("clouds", "points", "samples", "partitions"),
    [
        (1, 16_384, 4096, 32),
        (1, 131_072, 16_384, 32),
        (2, 16_384, 4096, 16),
        (4, 16_384, 4096, 8),
        (5, 16_384, 4096, 1),
        (4, 8192, 2048, 8),
        (4, 8191, 2048, 1),
        (1, 4097, 1024, 32),
        (1, 16_384, 255, 1),
    ],
)
def test_few_clouds_are_partitioned_where_that_is_allowed(
    planned_with_partitions: Callable[..., Plan],
    clouds: int,
    points: int,
    samples: int,
    partitions: int,
) -> None:
    """On a quarter of the processors."""
    plan = planned_with_partitions(clouds, points, samples)
    assert plan.shape.partitions == partitions
    assert plan.method is (Method.PARTITIONED if partitions > 1 else Method.TREE)


@pytest.mark.parametrize("points", [4097, 16_384, 150_000, 3_000_000])
def test_scratch_memory_of_partitions_is_bounded(
    planned_with_partitions: Callable[..., Plan], points: int
) -> None:
    plan = planned_with_partitions(1, points, points)
    assert plan.method is Method.PARTITIONED
    assert plan.scratch_bytes <= 40 * points + 400_000
