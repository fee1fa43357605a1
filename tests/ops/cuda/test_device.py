"""CUDA kernels on a GPU against the CPU ops: every sampling kernel, CUDA graphs, streams."""

from typing import Any

import pytest
import torch
from torch import Tensor

import farpoint_ops

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
METHODS = ("grid", "block", "tree", "partitioned")
SCATTER_METHODS = ("rows", "vectors", "in order")


def clouds(kind: str, batch: int, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    if kind == "ties":
        return torch.randint(0, 12, (batch, n, 3), generator=generator).float()
    xyz = torch.randn(batch, n, 3, generator=generator)
    if kind == "holes":
        xyz[torch.rand(batch, n, generator=generator) < 0.1] = torch.nan
    return xyz


def cuda_fps(xyz: Tensor, m: int, method: str, *tree: int) -> tuple[Tensor, Tensor]:
    """Samples of one kernel; skips where this device cannot run it."""
    try:
        indices, distances = torch.ops.farpoint._cuda_fps(xyz.cuda(), m, method, tree)
    except ValueError as error:
        pytest.skip(str(error))
    return indices, distances


def check(xyz: Tensor, m: int, method: str, *tree: int) -> None:
    indices, distances = cuda_fps(xyz, m, method, *tree)
    expected = farpoint_ops.farthest_point_sample(xyz, m, return_distances=True)
    assert torch.equal(indices.cpu(), expected[0])
    assert torch.equal(distances.cpu(), expected[1])


@pytest.mark.parametrize("kind", ["random", "ties", "holes"])
@pytest.mark.parametrize("n", [700, 4000])
@pytest.mark.parametrize("method", METHODS)
def test_small_clouds(method: str, n: int, kind: str) -> None:
    check(clouds(kind, 3, n), 60, method)


def small_arguments() -> dict[str, tuple[Any, ...]]:
    """Arguments of every op beside sampling, integers where the order of a sum is not fixed."""
    xyz, near = clouds("holes", 2, 300), clouds("random", 2, 40)
    features = torch.randint(9, (2, 19, 50)).float()
    idx, corners = torch.randint(50, (2, 64)), torch.randint(50, (2, 64, 3))
    values, weight = torch.randint(9, (2, 19, 64)).float(), torch.randint(9, (2, 64, 3)).float()
    return {
        "gather_points": (features, idx),
        "group_points": (features, corners.int()),
        "scatter_points": (values, idx, 50),
        "knn": (xyz, near, 20),
        "ball_query": (xyz, near, 0.5, 8),
        "nearest_sample": (xyz, near),
        "count_points": (idx.int(), 50),
        "interpolate": (features, corners, weight),
        "interpolate_scatter": (values, corners, weight, 50),
        "interpolate_dot": (values, features, corners),
    }


@pytest.mark.parametrize("name", small_arguments())
def test_small_ops(name: str) -> None:
    arguments, op = small_arguments()[name], getattr(torch.ops.farpoint, name)
    moved = [a.cuda() if isinstance(a, Tensor) else a for a in arguments]
    expected, given = op(*arguments), op(*moved)
    if isinstance(expected, Tensor):
        expected, given = (expected,), (given,)
    for on_cpu, on_cuda in zip(expected, given, strict=True):
        assert torch.equal(on_cuda.cpu(), on_cpu)


def cuda_scatter(values: Tensor, idx: Tensor, n: int, method: str) -> Tensor:
    """The sums of one method; skips where this device cannot run it."""
    try:
        return torch.ops.farpoint._cuda_scatter(values.cuda(), idx.cuda(), n, method)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", ["distinct", "repeated", "crowded"])
@pytest.mark.parametrize("method", SCATTER_METHODS)
def test_small_scatters(method: str, kind: str) -> None:
    """Integers, whose sums are exact in any order; 41 channels leave tiles half full."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(-9, 9, (2, 41, 300), generator=generator).float()
    idx = torch.stack([torch.randperm(301, generator=generator)[:300] for _ in range(2)])
    if kind == "repeated":
        idx[1, 299] = idx[1, 5]
    n = 301 if kind != "crowded" else 20
    given = cuda_scatter(values, (idx % n).int(), n, method)
    assert torch.equal(given.cpu(), torch.ops.farpoint.scatter_points(values, idx % n, n))


@pytest.mark.parametrize("method", SCATTER_METHODS)
@pytest.mark.parametrize(
    ("points", "samples"), [(4096, 32_768), (9000, 2000), (50_000, 20_001), (80_000, 320_000)]
)
def test_scatters_of_long_rows(points: int, samples: int, method: str) -> None:
    values, idx = torch.randint(-9, 9, (2, 19, samples)), torch.randint(points, (2, samples))
    expected = torch.ops.farpoint.scatter_points(values.float(), idx, points)
    assert torch.equal(cuda_scatter(values.float(), idx, points, method).cpu(), expected)


@pytest.mark.parametrize("points", [1000, 9000, 50_000, 80_000])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_gathers_of_long_rows(dtype: torch.dtype, points: int) -> None:
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


@pytest.mark.parametrize("kind", ["random", "ties", "holes"])
@pytest.mark.parametrize("n", [5000, 12_000, 60_000, 120_000, 300_000])
@pytest.mark.parametrize("method", METHODS)
def test_large_clouds(method: str, n: int, kind: str) -> None:
    check(clouds(kind, 2, n), 600, method)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("n", [1024, 9000, 40_000, 200_000])
def test_trees_of_any_number_of_warps(n: int, warps: int) -> None:
    """One to three levels, in registers, shared and global memory."""
    check(clouds("ties", 2, n), 400, "tree", warps)


@pytest.mark.parametrize("warps", [1, 4, 16])
@pytest.mark.parametrize("n", [9000, 100_000])
def test_partitions_of_any_number_of_warps(n: int, warps: int) -> None:
    check(clouds("ties", 2, n), 2000, "partitioned", warps)


@pytest.mark.parametrize("method", ["tree", "partitioned"])
def test_more_clouds_than_processors(method: str) -> None:
    check(clouds("random", 300, 900), 64, method)


def test_partitioned_clouds_on_several_streams_at_once() -> None:
    """Blocks wait for one another: a launch that got half of them would never end."""
    xyz = clouds("random", 8, 20_000).cuda()
    streams = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    given = []
    for cloud, stream in zip(xyz, streams, strict=True):
        with torch.cuda.stream(stream):
            given.append(torch.ops.farpoint._cuda_fps(cloud[None], 500, "partitioned")[0])
    torch.cuda.synchronize()
    assert torch.equal(torch.cat(given).cpu(), farpoint_ops.farthest_point_sample(xyz.cpu(), 500))


@pytest.mark.parametrize("n", [1000, 9000, 100_000])
def test_races_would_show_in_a_hundred_runs(n: int) -> None:
    xyz = clouds("random", 2, n).cuda()
    first = farpoint_ops.farthest_point_sample(xyz, 128)
    for _ in range(100):
        assert torch.equal(farpoint_ops.farthest_point_sample(xyz, 128), first)


@pytest.mark.parametrize("method", ["grid", "tree", "partitioned"])
def test_a_graph_replays_on_new_clouds(method: str) -> None:
    xyz, other = clouds("random", 2, 6000).cuda(), clouds("random", 2, 6001)[:, :6000]
    cuda_fps(xyz, 80, method)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        indices, _ = torch.ops.farpoint._cuda_fps(xyz, 80, method)
    xyz.copy_(other)
    graph.replay()
    assert torch.equal(indices.cpu(), farpoint_ops.farthest_point_sample(other, 80))


def test_runs_on_the_current_stream() -> None:
    stream = torch.cuda.Stream()
    xyz = clouds("random", 1, 50_000)
    with torch.cuda.stream(stream):
        moved = xyz.pin_memory().cuda(non_blocking=True)
        indices = farpoint_ops.farthest_point_sample(moved, 200)
    stream.synchronize()
    assert torch.equal(indices.cpu(), farpoint_ops.farthest_point_sample(xyz, 200))


def test_ragged_batch_of_very_different_clouds() -> None:
    sizes, samples = [3, 70_000, 1, 5000, 900], [2, 300, 1, 5000, 64]
    xyz = clouds("random", 1, sum(sizes))[0]
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    given = farpoint_ops.farthest_point_sample_ragged(xyz.cuda(), offsets.cuda(), samples)
    expected = farpoint_ops.farthest_point_sample_ragged(xyz, offsets, samples)
    assert torch.equal(given.cpu(), expected)


def test_repeated_indices_add_up_in_one_order_on_request() -> None:
    values = torch.randn(2, 33, 5000)
    idx = torch.randint(50, (2, 5000))
    expected = torch.ops.farpoint.scatter_points(values, idx, 50)
    torch.use_deterministic_algorithms(True)
    try:
        given = torch.ops.farpoint.scatter_points(values.cuda(), idx.cuda(), 50)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(given.cpu(), expected)


def check_search(name: str, xyz: Tensor, queries: Tensor, *rest: object) -> None:
    """The bits of the CPU op, of two clouds of unequal length."""
    n = xyz.size(1)
    lengths = torch.tensor([n, n * 4 // 5])
    arguments = {
        "knn": (xyz, queries, *rest, lengths),
        "ball_query": (xyz, queries, *rest[:2], lengths, *rest[2:]),
        "nearest_sample": (queries, xyz, None, lengths),
    }[name]
    op = getattr(torch.ops.farpoint, name)
    found = op(*(a.cuda() if isinstance(a, Tensor) else a for a in arguments))
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, op(*arguments), strict=True))


@pytest.mark.parametrize("kind", ["random", "ties", "holes"])
def test_searches_of_large_clouds_go_through_an_index(kind: str) -> None:
    """Sizes for which the rule makes one."""
    xyz = clouds(kind, 2, 40_000)
    queries = xyz[:, ::4].contiguous()
    for k in (3, 16, 40):
        check_search("knn", xyz, queries, k)
    check_search("ball_query", xyz, queries, 0.1, 32, 0.0)
    check_search("nearest_sample", queries, xyz)


@pytest.mark.parametrize("kind", ["ties", "holes"])
@pytest.mark.parametrize(
    ("name", "queries", "rest"),
    [("knn", 220, (20,)), ("ball_query", 250, (2.0, 8, 0.5)), ("nearest_sample", 600, ())],
)
def test_searches_go_through_an_index_on_few_processors(
    name: str, queries: int, rest: tuple[float, ...], kind: str
) -> None:
    if torch.cuda.get_device_properties(0).multi_processor_count > 4:
        pytest.skip("the rule makes none on this device")
    xyz = clouds(kind, 2, 9000)
    check_search(name, xyz, xyz[:, 30 : 30 + queries].contiguous(), *rest)
