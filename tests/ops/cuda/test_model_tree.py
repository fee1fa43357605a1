"""The tree kernel emulated on the CPU: its shapes, its spatial sort, and how much it leaves out."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.awkward_clouds import SHAPES, Cloud, coincident, duplicates, lattice, uniform
from tests.support.clouds import street_scan
from tests.support.cuda.model import executes_ptx
from tests.support.cuda.on_cpu import (
    TreeShape,
    check_exact,
    leaves_visited,
    planned_tree,
    sample,
)

# Every way that the kernel and its sort are built, small enough for all of them to have leaves.
SMALL_SHAPES = (
    TreeShape(1, 1, False, True),
    TreeShape(2, 1, False, False),
    TreeShape(1, 2, True, False),
    TreeShape(4, 2, True, True),
    TreeShape(8, 2, False, False),
    TreeShape(16, 3, False, True),
    TreeShape(2, 4, False, True),
)
# The most points that a shape takes, and the ends of a leaf, of a node and of a warp's leaves.
EDGES = (
    *((TreeShape(1, 1, False, True), n) for n in (1, 31, 32, 33, 1023, 1024, 1025, 2047, 2048)),
    *((TreeShape(1, 2, True, False), n) for n in (1024, 1025, 32_767, 32_768)),
    *((TreeShape(1, 3, False, False), n) for n in (32_769, 70_001)),
    *((TreeShape(2, 1, False, True), n) for n in (2047, 2048, 2049, 3073, 4095, 4096)),
    *((TreeShape(4, 2, False, True), n) for n in (4096, 4097, 8193)),
    *((TreeShape(16, 1, False, True), n) for n in (16_384,)),
    *((TreeShape(16, 2, True, True), n) for n in (512, 513, 16_384)),
)


@pytest.mark.parametrize("cloud", SHAPES)
@pytest.mark.parametrize("shape", SMALL_SHAPES)
def test_every_shape_of_the_tree_is_exact(shape: TreeShape, cloud: Callable[..., Cloud]) -> None:
    rng = np.random.default_rng(5)
    sizes = [700, 1, 990]
    check_exact(
        [cloud(rng, n) for n in sizes], [90, 1, 200], [5, 0, 989], shape=shape, seed=sum(shape)
    )


@pytest.mark.parametrize("cloud", SHAPES)
@pytest.mark.parametrize("warps", [1, 2])
def test_two_boxes_a_lane_are_exact(warps: int, cloud: Callable[..., Cloud]) -> None:
    rng = np.random.default_rng(6)
    sizes = [1030 * warps, 1, 700, 2048 * warps]
    counts, starts = [1030, 1, 90, 200], [1029, 0, 5, 0]
    shape = TreeShape(warps, 1, False, True)
    check_exact([cloud(rng, n) for n in sizes], counts, starts, shape=shape, seed=warps)


@pytest.mark.parametrize("cloud", [uniform, lattice])
@pytest.mark.parametrize(("shape", "n"), EDGES)
def test_the_edges_of_a_shape(shape: TreeShape, n: int, cloud: Callable[..., Cloud]) -> None:
    check_exact([cloud(np.random.default_rng(n), n)], [min(n, 40)], [n - 1], shape=shape, seed=n)


@pytest.mark.parametrize("cloud", [uniform, lattice, duplicates, coincident])
@pytest.mark.parametrize("shape", SMALL_SHAPES)
def test_all_points_are_sampled(shape: TreeShape, cloud: Callable[..., Cloud]) -> None:
    """The order of the last samples is that of rows: coincident points have no distance."""
    rng = np.random.default_rng(1)
    check_exact([cloud(rng, 300), cloud(rng, 65)], [300, 65], [17, 64], shape=shape)


@pytest.mark.skipif(executes_ptx(), reason="counts stand in the source, not in its PTX")
@pytest.mark.parametrize(
    ("name", "shape", "most"),
    [
        ("street", TreeShape(16, 1, False, True), 9),
        ("street", TreeShape(2, 2, True, True), 9),
        ("cube", TreeShape(16, 1, False, True), 16),
    ],
)
def test_a_sample_goes_down_to_few_leaves(name: str, shape: TreeShape, most: float) -> None:
    """Of 512 leaves."""
    scan = street_scan()[:, :3].copy()
    cloud = scan[np.random.default_rng(0).permutation(len(scan))[:16_384]]
    if name == "cube":
        cloud = uniform(np.random.default_rng(0), 16_384)
    leaves_visited()
    sample([cloud], [4096], shape=shape)
    assert leaves_visited() / 4096 < most


@pytest.mark.skipif(executes_ptx(), reason="counts stand in the source, not in its PTX")
@pytest.mark.parametrize("far", [1e3, 1e6, 1e30])
def test_points_far_outside_leave_the_rest_sorted(far: float) -> None:
    """Of 128 leaves; cells of equal size would hold the whole cube in one."""
    rng = np.random.default_rng(0)
    cloud = uniform(rng, 4096)
    cloud[rng.integers(0, 4096, 5)] = far * rng.standard_normal((5, 3))
    leaves_visited()
    check_exact([cloud], [512], [0], shape=TreeShape(8, 1, False, True))
    assert leaves_visited() / 512 < 20


@pytest.mark.parametrize("clouds", [1, 7, 300])
@pytest.mark.parametrize("points", [2049, 16_384, 150_000, 200_000, 3_000_000, 30_000_000])
def test_scratch_memory_is_bounded(clouds: int, points: int) -> None:
    assert planned_tree(clouds, points).scratch_bytes <= 40 * clouds * points + 400_000
