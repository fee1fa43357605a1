"""Every sampling kernel on a CUDA device at the edges of its variants: the bits of the CPU op."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.awkward_clouds import (
    SHAPES,
    Cloud,
    coincident,
    duplicates,
    huge,
    lattice,
    nothing_finite,
    uniform,
    with_holes,
)
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

OPS = torch.ops.farpoint
# Warps, levels, whether leaves' boxes are in shared memory, whether one block sorts, partitions.
TREES = (
    (1, 1, 0, 1, 1),
    (2, 1, 0, 0, 1),
    (1, 2, 1, 0, 1),
    (4, 2, 1, 1, 1),
    (8, 2, 0, 0, 1),
    (16, 3, 0, 1, 1),
    (2, 4, 0, 1, 1),
)
PARTITIONED = ((1, 1, 0, 1, 2), (2, 1, 0, 0, 4), (1, 1, 0, 1, 8), (4, 2, 1, 1, 2))
# The most points that a tree takes, and the ends of a leaf, of a node and of a warp's leaves.
EDGES = (
    *(((1, 1, 0, 1, 1), n) for n in (1, 31, 32, 33, 1023, 1024, 1025, 2047, 2048)),
    *(((1, 2, 1, 0, 1), n) for n in (1024, 1025, 32_767, 32_768)),
    *(((1, 3, 0, 0, 1), n) for n in (32_769, 70_001)),
    *(((2, 1, 0, 1, 1), n) for n in (2047, 2048, 2049, 3073, 4095, 4096)),
    *(((4, 2, 0, 1, 1), n) for n in (4096, 4097, 8193)),
    ((16, 1, 0, 1, 1), 16_384),
    *(((16, 2, 1, 1, 1), n) for n in (512, 513, 16_384)),
)
# Partitions are the fewest: the software runtime takes its time for more.
METHODS = {"grid": (), "block": (), "tree": (), "partitioned": PARTITIONED[0]}
BLOCKS = (1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096)
Shape = Callable[[np.random.Generator, int], Cloud]


def padded(shape: Shape, sizes: tuple[int, ...]) -> Tensor:
    """Clouds of these sizes; rows beyond are NaN and must not be read."""
    rng = np.random.default_rng(sum(sizes))
    rows = np.full((len(sizes), max(sizes), 3), np.nan, np.float32)
    for row, size in zip(rows, sizes, strict=True):
        row[:size] = shape(rng, size)
    return torch.from_numpy(rows)


def on_device(method: str, tree: tuple[int, ...], *arguments: object) -> tuple[Tensor, Tensor]:
    """Samples of one kernel; skips where this device cannot run it."""
    xyz, m, *rest = (a.cuda() if isinstance(a, Tensor) else a for a in arguments)
    try:
        indices, distances = OPS._cuda_fps(xyz, m, method, list(tree), *rest)
    except ValueError as error:
        pytest.skip(str(error))
    return indices.cpu(), distances.cpu()


def check(
    shape: Shape,
    sizes: tuple[int, ...],
    m: int,
    method: str = "auto",
    tree: tuple[int, ...] = (),
    radius: Tensor | None = None,
) -> None:
    """The last row of each cloud is its first sample."""
    lengths = torch.tensor(sizes)
    given = padded(shape, sizes), m, lengths - 1, lengths
    expected = OPS.furthest_point_sample(*given, True, radius)
    found = on_device(method, tree, *given, True, radius)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    # Without distances the last sample is put down behind the loop.
    assert torch.equal(on_device(method, tree, *given, False, radius)[0], expected[0])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_every_kernel(method: str, shape: Shape) -> None:
    check(shape, (200, 64, 131), 64, method, METHODS[method])
    check(shape, (40, 1), 1, method, METHODS[method])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tree", [*TREES, *PARTITIONED])
def test_every_tree(tree: tuple[int, ...], shape: Shape) -> None:
    check(shape, (700, 150, 990), 40, tree=tree)


@pytest.mark.parametrize("shape", [uniform, lattice, duplicates, coincident])
@pytest.mark.parametrize("tree", [*TREES, PARTITIONED[0]])
def test_all_points(tree: tuple[int, ...], shape: Shape) -> None:
    """The order of the last samples is that of rows: coincident points have no distance."""
    check(shape, (300,), 300, tree=tree)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warps", [1, 2])
def test_two_boxes_a_lane(warps: int, shape: Shape) -> None:
    check(shape, (1030 * warps, 700, 2048 * warps), 40, tree=(warps, 1, 0, 1, 1))


@pytest.mark.parametrize("shape", [uniform, lattice])
@pytest.mark.parametrize(("tree", "n"), EDGES)
def test_the_edges_of_a_tree(tree: tuple[int, ...], n: int, shape: Shape) -> None:
    check(shape, (n,), min(n, 30), tree=tree)


@pytest.mark.parametrize("crowd", [0, 16])
@pytest.mark.parametrize("n", BLOCKS)
def test_the_edges_of_the_block_kernel(n: int, crowd: int) -> None:
    """Alone, and beside so many clouds that processors share more than they have schedulers."""
    check(uniform, (n, *[40] * crowd), min(n, 8), "block")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "crowd"), [(400, 0), (900, 16), (1900, 16), (3900, 0)])
def test_block_kernel_with_points_in_every_item(n: int, crowd: int, shape: Shape) -> None:
    """Ties within a thread, between lanes, groups of items and warps."""
    check(shape, (n, *[60] * crowd), 60, "block")


@pytest.mark.parametrize("shape", [uniform, lattice])
def test_more_partitions_than_a_warp_has_lanes_for(shape: Shape) -> None:
    """Each partition reads one sample of each other at a time."""
    check(shape, (1100, 1000), 40, tree=(1, 1, 0, 1, 32))


def test_partitions_of_several_groups_of_leaves() -> None:
    check(uniform, (5000,), 60, tree=(4, 1, 0, 1, 2))


@pytest.mark.parametrize("shape", [uniform, duplicates, with_holes, nothing_finite, huge])
@pytest.mark.parametrize("method", METHODS)
def test_a_cloud_ends_where_the_radius_is_reached(method: str, shape: Shape) -> None:
    """At radii that occur, just below them, at none and beyond all."""
    m, sizes = 60, (300,) * 7
    alone = padded(shape, (300,))
    occurring = OPS.furthest_point_sample(alone, m, torch.tensor([299]), None, True)[1][0, [0, 40]]
    below = occurring.nextafter(torch.tensor(0.0))
    radius = torch.cat([torch.tensor([0, 1e38, torch.inf]), occurring, below])
    check(lambda *_: alone[0].numpy(), sizes, m, method, METHODS[method], radius)


@pytest.mark.parametrize("method", ["tree", "partitioned"])
@pytest.mark.parametrize(("clouds", "points"), [(1, 2049), (7, 2049), (1, 9000)])
def test_scratch_memory_is_bounded(method: str, clouds: int, points: int) -> None:
    """The server's prediction of memory relies on this: `engine/sample.py`."""
    xyz = torch.rand(clouds, points, 3).cuda()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    on_device(method, METHODS[method], xyz, 2)
    assert torch.cuda.max_memory_allocated() - before <= 40 * clouds * points + 400_000
