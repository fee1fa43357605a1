"""CUDA kernels at the edges of their variants, in graphs and on streams: the bits of the CPU ops.

What needs large clouds has `large` in its name: the software runtime would execute it for minutes.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.clouds import (
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
from tests.support.tensors import DIFFERENTIABLE, WITHOUT_GRADIENT, Make
from torch import Tensor

import farpoint_ops

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
SCATTERS = ("rows", "vectors", "in order")
BLOCKS = (1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096)
Shape = Callable[[np.random.Generator, int], Cloud]


def padded(shape: Shape, sizes: tuple[int, ...]) -> Tensor:
    """Clouds of these sizes; rows beyond are NaN and must not be read."""
    rng = np.random.default_rng(sum(sizes))
    rows = np.full((len(sizes), max(sizes), 3), np.nan, np.float32)
    for row, size in zip(rows, sizes, strict=True):
        row[:size] = shape(rng, size)
    return torch.from_numpy(rows)


def on_cuda(arguments: Iterable[Any]) -> list[Any]:
    return [a.cuda() if isinstance(a, Tensor) else a for a in arguments]


def on_device(method: str, tree: tuple[int, ...], *arguments: object) -> tuple[Tensor, Tensor]:
    """Samples of one kernel; skips where this device cannot run it."""
    xyz, m, *rest = on_cuda(arguments)
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
    """Alone, and with so many clouds that processors share more than they have schedulers."""
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
    """The server's prediction of memory relies on this: `kinds/sample.py`."""
    xyz = torch.rand(clouds, points, 3).cuda()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    on_device(method, METHODS[method], xyz, 2)
    assert torch.cuda.max_memory_allocated() - before <= 40 * clouds * points + 400_000


@pytest.mark.parametrize("shape", [uniform, lattice, with_holes])
@pytest.mark.parametrize("n", [5000, 12_000, 60_000, 120_000, 300_000])
@pytest.mark.parametrize("method", METHODS)
def test_large_clouds(method: str, n: int, shape: Shape) -> None:
    check(shape, (n, n - 1), 600, method)


@pytest.mark.parametrize("method", ["tree", "partitioned"])
def test_a_large_number_of_clouds(method: str) -> None:
    check(uniform, (900,) * 300, 64, method)


def test_large_partitioned_clouds_on_several_streams_at_once() -> None:
    """Blocks wait for one another: a launch that got half of them would never end."""
    xyz = padded(uniform, (20_000,) * 8).cuda()
    streams = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    given = []
    for cloud, stream in zip(xyz, streams, strict=True):
        with torch.cuda.stream(stream):
            given.append(OPS._cuda_fps(cloud[None], 500, "partitioned")[0])
    torch.cuda.synchronize()
    assert torch.equal(torch.cat(given).cpu(), farpoint_ops.farthest_point_sample(xyz.cpu(), 500))


@pytest.mark.parametrize("n", [1000, 9000, 100_000])
def test_races_in_large_clouds_would_show_in_a_hundred_runs(n: int) -> None:
    xyz = padded(uniform, (n, n)).cuda()
    first = farpoint_ops.farthest_point_sample(xyz, 128)
    for _ in range(100):
        assert torch.equal(farpoint_ops.farthest_point_sample(xyz, 128), first)


@pytest.mark.parametrize("method", ["grid", "tree", "partitioned"])
def test_a_graph_replays_on_new_large_clouds(method: str) -> None:
    xyz, other = padded(uniform, (6000, 6000)).cuda(), padded(uniform, (6000, 6001))[:, :6000]
    other[0, 0] += 1
    on_device(method, (), xyz, 80)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        indices, _ = OPS._cuda_fps(xyz, 80, method)
    xyz.copy_(other)
    graph.replay()
    assert torch.equal(indices.cpu(), farpoint_ops.farthest_point_sample(other, 80))


def test_a_large_cloud_is_sampled_on_the_current_stream() -> None:
    stream = torch.cuda.Stream()
    xyz = padded(uniform, (50_000,))
    with torch.cuda.stream(stream):
        moved = xyz.pin_memory().cuda(non_blocking=True)
        indices = farpoint_ops.farthest_point_sample(moved, 200)
    stream.synchronize()
    assert torch.equal(indices.cpu(), farpoint_ops.farthest_point_sample(xyz, 200))


def test_a_large_ragged_batch() -> None:
    sizes, samples = [3, 70_000, 1, 5000, 900], [2, 300, 1, 5000, 64]
    xyz = padded(uniform, (sum(sizes),))[0]
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    given = farpoint_ops.farthest_point_sample_ragged(xyz.cuda(), offsets.cuda(), samples)
    expected = farpoint_ops.farthest_point_sample_ragged(xyz, offsets, samples)
    assert torch.equal(given.cpu(), expected)


@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *WITHOUT_GRADIENT])
def test_small_ops(name: str) -> None:
    """Every op, at channels and samples that leave the last tile or warp partly filled."""
    make = Make(torch.device("cpu"), b=2, c=19, n=300, m=40, k=8)
    case = DIFFERENTIABLE.get(name)
    op = case.op if case else getattr(OPS, name)
    arguments = case.arguments(make) if case else WITHOUT_GRADIENT[name](make)
    expected, given = op(*arguments), op(*on_cuda(arguments))
    if isinstance(expected, Tensor):
        expected, given = (expected,), (given,)
    for on_cpu, found in zip(expected, given, strict=True):
        # The order of a sum is not fixed; indices are.
        torch.testing.assert_close(found.cpu(), on_cpu)


def check_scatter(values: Tensor, idx: Tensor, n: int, method: str) -> None:
    """Integers, whose sums are exact in any order; skips where this device cannot run it."""
    try:
        given = OPS._cuda_scatter(values.float().cuda(), idx.cuda(), n, method)
    except ValueError as error:
        pytest.skip(str(error))
    assert torch.equal(given.cpu(), OPS.scatter_points(values.float(), idx, n))


@pytest.mark.parametrize("kind", ["distinct", "repeated", "crowded"])
@pytest.mark.parametrize("method", SCATTERS)
def test_small_scatters(method: str, kind: str) -> None:
    """41 channels leave tiles half full."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(-9, 9, (2, 41, 300), generator=generator)
    idx = torch.stack([torch.randperm(301, generator=generator)[:300] for _ in range(2)])
    if kind == "repeated":
        idx[1, 299] = idx[1, 5]
    n = 301 if kind != "crowded" else 20
    check_scatter(values, (idx % n).int(), n, method)


@pytest.mark.parametrize("method", SCATTERS)
@pytest.mark.parametrize(
    ("points", "samples"), [(4096, 32_768), (9000, 2000), (50_000, 20_001), (80_000, 320_000)]
)
def test_large_scatters(points: int, samples: int, method: str) -> None:
    values, idx = torch.randint(-9, 9, (2, 19, samples)), torch.randint(points, (2, samples))
    check_scatter(values, idx, points, method)


@pytest.mark.parametrize("points", [1000, 9000, 50_000, 80_000])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_large_gathers(dtype: torch.dtype, points: int) -> None:
    features = torch.randint(100, (2, 19, points)).to(dtype).cuda()
    for samples in (points, points - 3, 64):
        idx = torch.randint(points, (2, samples)).cuda()
        expected = features.gather(2, idx[:, None].expand(-1, 19, -1))
        assert torch.equal(farpoint_ops.gather_points(features, idx), expected)


def test_a_graph_replays_gather_and_its_backward() -> None:
    features = torch.randint(9, (2, 19, 500)).float().cuda().requires_grad_()
    idx, other = (torch.randint(500, (2, 300)).cuda() for _ in range(2))

    def step() -> Tensor:
        return torch.autograd.grad(farpoint_ops.gather_points(features, idx).sum(), features)[0]

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    idx.copy_(other)
    graph.replay()
    assert torch.equal(captured, step())


def check_search(name: str, xyz: Tensor, queries: Tensor, *rest: object) -> None:
    """Two clouds of unequal length."""
    lengths = torch.tensor([xyz.size(1), xyz.size(1) * 4 // 5])
    arguments = {
        "knn": (xyz, queries, *rest, lengths),
        "ball_query": (xyz, queries, *rest[:2], lengths, *rest[2:]),
        "nearest_sample": (queries, xyz, None, lengths),
    }[name]
    found = getattr(OPS, name)(*on_cuda(arguments))
    expected = getattr(OPS, name)(*arguments)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("shape", [uniform, lattice, with_holes])
def test_searches_of_large_clouds_go_through_an_index(shape: Shape) -> None:
    """Sizes for which the rule makes one."""
    xyz = padded(shape, (40_000, 40_000))
    queries = xyz[:, ::4].contiguous()
    for k in (3, 16, 40):
        check_search("knn", xyz, queries, k)
    check_search("ball_query", xyz, queries, 0.1, 32, 0.0)
    check_search("nearest_sample", queries, xyz)


@pytest.mark.parametrize("shape", [lattice, with_holes])
@pytest.mark.parametrize(
    ("name", "queries", "rest"),
    [("knn", 220, (20,)), ("ball_query", 600, (2.0, 8, 0.5)), ("nearest_sample", 600, ())],
)
def test_searches_go_through_an_index_on_few_processors(
    name: str, queries: int, rest: tuple[float, ...], shape: Shape
) -> None:
    if torch.cuda.get_device_properties(0).multi_processor_count > 4:
        pytest.skip("the rule makes none on this device")
    xyz = padded(shape, (9000, 9000))
    check_search(name, xyz, xyz[:, 30 : 30 + queries].contiguous(), *rest)
