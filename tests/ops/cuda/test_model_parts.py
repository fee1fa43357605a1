"""One cloud by several blocks of the emulated GPU: exact, whichever block is ahead.

Blocks of the model run at once, their warps in a random order and at random speeds, so a part that
takes a point too early, or applies a sample of another too early or too late, shows.
"""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.awkward_clouds import SHAPES, Cloud, duplicates, lattice, uniform
from tests.support.cuda.on_cpu import Method, TreeShape, check_exact, planned

# One to four warps in a part, two to 32 parts, registers and shared memory, both sorts.
PARTS = (
    TreeShape(1, 1, False, True, parts=2),
    TreeShape(2, 1, False, False, parts=4),
    TreeShape(1, 1, False, True, parts=8),
    TreeShape(4, 2, True, True, parts=2),
)
MANY = TreeShape(1, 1, False, True, parts=32)


@pytest.mark.parametrize("cloud", SHAPES)
@pytest.mark.parametrize("shape", PARTS)
def test_parts_are_exact(shape: TreeShape, cloud: Callable[..., Cloud]) -> None:
    """Also where a part has no point, and where clouds do not fit on the device together."""
    rng = np.random.default_rng(5)
    sizes = [400, 1, 233]
    check_exact(
        [cloud(rng, n) for n in sizes], [40, 1, 60], [5, 0, 232], shape=shape, seed=sum(shape)
    )


@pytest.mark.parametrize("cloud", [uniform, lattice, duplicates])
def test_all_points_are_sampled_in_parts(cloud: Callable[..., Cloud]) -> None:
    check_exact([cloud(np.random.default_rng(1), 300)], [300], [17], shape=PARTS[0])


def test_more_parts_than_a_warp_has_lanes_for() -> None:
    """Each part reads one sample of each other at a time."""
    rng = np.random.default_rng(2)
    check_exact([uniform(rng, 1100), lattice(rng, 1000)], [40, 40], [0, 1], shape=MANY)


def test_parts_of_several_groups_of_leaves() -> None:
    cloud = uniform(np.random.default_rng(3), 5000)
    check_exact([cloud], [60], [4999], shape=TreeShape(4, 1, False, True, parts=2))


@pytest.mark.parametrize(
    ("clouds", "points", "samples", "parts"),
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
def test_few_clouds_are_sampled_in_parts(
    clouds: int, points: int, samples: int, parts: int
) -> None:
    """On a quarter of the 132 processors of an H100."""
    plan = planned(clouds, points, samples, processors=132)
    assert plan.shape.parts == parts
    assert plan.method is (Method.PARTS if parts > 1 else Method.TREE)


@pytest.mark.parametrize(
    ("points", "shape"),
    [
        (16_384, TreeShape(4, 1, False, True, 32)),
        (131_072, TreeShape(8, 1, False, False, 32)),
        (524_288, TreeShape(16, 1, False, False, 32)),
        (1_000_000, TreeShape(16, 2, True, False, 32)),
        (10_000_000, TreeShape(16, 3, False, False, 1)),
    ],
)
def test_shapes_of_parts_that_the_rule_picks(points: int, shape: TreeShape) -> None:
    assert planned(1, points, points // 4, processors=132).shape == shape


@pytest.mark.parametrize("points", [4097, 16_384, 150_000, 3_000_000])
def test_scratch_memory_of_parts_is_bounded(points: int) -> None:
    plan = planned(1, points, points, processors=132)
    assert plan.method is Method.PARTS
    assert plan.scratch_bytes <= 40 * points + 400_000
