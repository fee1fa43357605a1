"""torch_cluster, pytorch3d and knn_cuda by their definitions in plain torch, gradients included."""

import math

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample
from farpoint_ops.compat import knn_cuda, pytorch3d, torch_cluster

DIMENSIONS = [1, 2, 3, 7]


def clouds(device: torch.device, d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three clouds of 30, 0 and 25 points, and 8, 3 and 5 queries."""
    generator = torch.Generator().manual_seed(d)
    x = torch.rand(55, d, generator=generator).to(device)
    y = torch.rand(16, d, generator=generator).to(device)
    batch_x = torch.tensor([0] * 30 + [2] * 25, device=device)
    batch_y = torch.tensor([0] * 8 + [1] * 3 + [2] * 5, device=device)
    return x, y, batch_x, batch_y


def apart(x: Tensor, y: Tensor, batch_x: Tensor, batch_y: Tensor) -> Tensor:
    """Squared distances (m, n); infinite between clouds."""
    squared = (y.double()[:, None] - x.double()).square().sum(-1)
    return squared.masked_fill(batch_y[:, None] != batch_x, math.inf)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_fps(device: torch.device, d: int) -> None:
    x, _, batch, _ = clouds(device, d)
    rows = torch_cluster.fps(x, batch, ratio=0.3, random_start=False)
    expected = [farthest_point_sample(x[None, :30], 9)[0]]
    expected.append(farthest_point_sample(x[None, 30:], 8)[0] + 30)
    assert rows.dtype == torch.int64
    assert torch.equal(rows, torch.cat(expected).long())
    by_pointer = torch_cluster.fps(x, ratio=torch.tensor(0.3), random_start=False, ptr=[0, 30, 55])
    assert torch.equal(by_pointer, rows)
    assert len(torch_cluster.fps(x, batch)) == 15 + 13


def test_fps_takes_its_argument_by_name_and_any_shape(device: torch.device) -> None:
    x = torch.rand(12, 2, 4, generator=torch.Generator().manual_seed(3)).to(device)
    rows = torch_cluster.fps(src=x, random_start=False)
    assert torch.equal(rows, torch_cluster.fps(x.flatten(1), random_start=False))
    assert torch_cluster.fps(x, ratio=0.0).shape == (0,)
    assert torch_cluster.fps(x, ratio=1.7).unique().tolist() == list(range(12))


def test_integers_are_computed_exactly(device: torch.device) -> None:
    """Beyond 2^24, where float32 would round them."""
    x = torch.randint(0, 50, (30, 3), generator=torch.Generator().manual_seed(5)).to(device)
    far = x + 2**30
    assert torch.equal(
        torch_cluster.fps(far, random_start=False), torch_cluster.fps(x, None, 0.5, False)
    )
    assert torch.equal(torch_cluster.knn(far, far, 3), torch_cluster.knn(x, x, 3))
    assert torch.equal(torch_cluster.radius(far, far, 20.0), torch_cluster.radius(x, x, 20.0))
    assert torch.equal(torch_cluster.nearest(far, far[:5]), torch_cluster.nearest(x, x[:5]))


def test_nothing_is_nearer_than_a_radius_of_zero(device: torch.device) -> None:
    x = torch.zeros(4, 3, device=device)
    assert torch_cluster.radius(x, x, 0.0).shape == (2, 0)
    assert torch_cluster.radius_graph(x, 0.0).shape == (2, 0)


def test_a_random_start(device: torch.device) -> None:
    x, _, batch, _ = clouds(device, 3)
    firsts = {int(torch_cluster.fps(x, batch, 0.1)[0]) for _ in range(30)}
    assert len(firsts) > 3


@pytest.mark.parametrize("d", DIMENSIONS)
def test_knn(device: torch.device, d: int) -> None:
    x, y, batch_x, batch_y = clouds(device, d)
    row, col = torch_cluster.knn(x, y, 4, batch_x, batch_y)
    distance = apart(x, y, batch_x, batch_y)
    nearest = distance.topk(4, largest=False)
    some = nearest.values.isfinite()
    queries = torch.arange(16, device=device)[:, None].expand(-1, 4)
    assert torch.equal(row, queries[some])
    torch.testing.assert_close(distance[row, col], nearest.values[some], rtol=1e-5, atol=1e-6)


def test_knn_of_more_than_there_are(device: torch.device) -> None:
    x = torch.rand(5, 3, device=device)
    assert torch_cluster.knn(x, x, 9).shape == (2, 25)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_radius(device: torch.device, d: int) -> None:
    x, y, batch_x, batch_y = clouds(device, d)
    inside = apart(x, y, batch_x, batch_y) < 0.3**2
    edges = torch_cluster.radius(x, y, 0.3, batch_x, batch_y)
    assert torch.equal(edges, inside.nonzero().T)
    few = torch_cluster.radius(x, y, 0.3, batch_x, batch_y, max_num_neighbors=2)
    assert torch.equal(few, (inside & (inside.cumsum(1) <= 2)).nonzero().T)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("loop", [False, True])
def test_graphs(device: torch.device, loop: bool, flow: str) -> None:
    x, _, batch, _ = clouds(device, 3)
    x[3] = x[7]  # a coincident pair
    distance = apart(x, x, batch, batch)
    if not loop:
        distance = distance.fill_diagonal_(math.inf)
    edges = torch_cluster.radius_graph(x, 0.3, batch, loop, 5, flow)
    inside = distance < 0.3**2
    inside = inside & (inside.cumsum(1) <= 5)
    targets, sources = inside.nonzero().T
    expected = [sources, targets] if flow == "source_to_target" else [targets, sources]
    assert torch.equal(edges, torch.stack(expected))
    near = torch_cluster.knn_graph(x, 4, batch, loop, flow)
    sources, targets = near if flow == "source_to_target" else near.flip(0)
    assert targets.tolist() == sorted(list(range(55)) * 4)
    wanted = distance.topk(4, largest=False).values.flatten()
    torch.testing.assert_close(distance[targets, sources], wanted)


def test_coincident_points_have_k_neighbors_each(device: torch.device) -> None:
    row, col = torch_cluster.knn_graph(torch.zeros(9, 3, device=device), 3)
    assert col.bincount().tolist() == [3] * 9
    assert (row != col).all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_nearest(device: torch.device, d: int) -> None:
    x, y, batch_x, batch_y = clouds(device, d)
    rows = torch_cluster.nearest(x, y, batch_x, batch_y)
    assert torch.equal(rows, apart(y, x, batch_y, batch_x).argmin(1))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_grid_cluster(device: torch.device, d: int) -> None:
    pos = torch.rand(60, d, generator=torch.Generator().manual_seed(1)).to(device)
    size = torch.full((d,), 0.3, device=device)
    cluster = torch_cluster.grid_cluster(pos, size)
    cells = ((pos - pos.min(0).values) / size).long()
    for i in range(60):
        assert torch.equal(cluster == cluster[i], (cells == cells[i]).all(1))
    start, end = torch.zeros(d, device=device), torch.ones(d, device=device)
    assert torch_cluster.grid_cluster(pos[:0], size).shape == (0,)
    numbers = torch_cluster.grid_cluster(pos, size, start, end)
    expected = ((pos / size).long() * 4 ** torch.arange(d, device=device)).sum(1)
    assert torch.equal(numbers, expected)


LENGTHS, OTHERS = [20, 0, 7], [30, 30, 4]


def points(device: torch.device, n: int, d: int, seed: int) -> Tensor:
    return torch.rand(3, n, d, generator=torch.Generator().manual_seed(seed)).to(device)


def lengths(device: torch.device, values: list[int]) -> Tensor:
    return torch.tensor(values, device=device)


@pytest.mark.parametrize("d", [2, 3, 9])
def test_sample_farthest_points(device: torch.device, d: int) -> None:
    cloud = points(device, 20, d, 1).requires_grad_()
    chosen, idx = pytorch3d.sample_farthest_points(cloud, lengths(device, LENGTHS), K=[9, 3, 8])
    assert chosen.shape == (3, 9, d)
    assert idx.dtype == torch.int64
    assert idx[0].tolist() == farthest_point_sample(cloud[:1], 9)[0].tolist()
    assert idx[1].tolist() == [-1] * 9
    assert idx[2].tolist() == [*farthest_point_sample(cloud[2:, :7], 7)[0].tolist(), -1, -1]
    assert torch.equal(chosen[0], cloud[0, idx[0]])
    assert (chosen[2, 7:] == 0).all()
    (gradient,) = torch.autograd.grad(chosen.sum(), cloud)
    assert gradient.sum() == d * (9 + 7)
    firsts = {int(pytorch3d.sample_farthest_points(cloud, K=1, random_start_point=True)[1][0, 0])}
    for _ in range(20):
        _, rows = pytorch3d.sample_farthest_points(cloud, K=1, random_start_point=True)
        firsts.add(int(rows[0, 0]))
    assert len(firsts) > 2


@pytest.mark.parametrize("d", [2, 3, 9])
def test_knn_points(device: torch.device, d: int) -> None:
    p1, p2 = (points(device, n, d, n).requires_grad_() for n in (20, 30))
    sizes = lengths(device, LENGTHS), lengths(device, OTHERS)
    found = pytorch3d.knn_points(p1, p2, *sizes, K=5, return_nn=True)
    assert found.dists.shape == found.idx.shape == (3, 20, 5)
    total = p1.new_zeros(())
    for b, (n, m) in enumerate(zip(LENGTHS, OTHERS, strict=True)):
        distances = (p1[b, :n, None] - p2[b, :m]).square().sum(-1)
        near = distances.topk(min(5, m), largest=False)
        count = min(5, m)
        torch.testing.assert_close(found.dists[b, :n, :count], near.values)
        assert torch.equal(found.idx[b, :n, :count], near.indices)
        assert torch.equal(found.knn[b, :n, :count], p2[b][near.indices])
        for tensor in (found.dists, found.idx, found.knn):
            assert (tensor[b, n:] == 0).all()
            assert (tensor[b, :, count:] == 0).all()
        total = total + near.values.sum()
    for a, e in zip(
        torch.autograd.grad(found.dists.sum(), [p1, p2]),
        torch.autograd.grad(total, [p1, p2]),
        strict=True,
    ):
        torch.testing.assert_close(a, e)
    assert pytorch3d.knn_points(p1, p2).knn is None


@pytest.mark.parametrize("d", [3, 9])
def test_knn_cuda(device: torch.device, d: int) -> None:
    ref, query = points(device, 30, d, 1).requires_grad_(), points(device, 20, d, 2)
    distances, idx = knn_cuda.KNN(5, transpose_mode=True)(ref, query)
    expected = torch.cdist(query.double(), ref.detach().double()).topk(5, largest=False)
    assert torch.equal(idx, expected.indices)
    torch.testing.assert_close(distances, expected.values.float())
    assert not distances.requires_grad
    for actual, wanted in zip(knn_cuda.KNN(5)(ref.mT, query.mT), (distances, idx), strict=True):
        assert torch.equal(actual, wanted.mT)


@pytest.mark.parametrize("d", [2, 3, 9])
def test_ball_query(device: torch.device, d: int) -> None:
    p1, p2 = points(device, 20, d, 3), points(device, 30, d, 4)
    radius = 0.3 * d**0.5
    found = pytorch3d.ball_query(
        p1, p2, lengths(device, LENGTHS), lengths(device, OTHERS), K=4, radius=radius
    )
    for b, (n, m) in enumerate(zip(LENGTHS, OTHERS, strict=True)):
        squared = (p1[b, :, None] - p2[b]).square().sum(-1)
        for i in range(20):
            rows = (squared[i, :m] < radius**2).nonzero()[:4, 0].tolist() if i < n else []
            assert found.idx[b, i].tolist() == rows + [-1] * (4 - len(rows))
            torch.testing.assert_close(found.dists[b, i, : len(rows)], squared[i, rows])
            assert (found.dists[b, i, len(rows) :] == 0).all()
            assert torch.equal(found.knn[b, i, : len(rows)], p2[b, rows])


def test_knn_gather(device: torch.device) -> None:
    x = points(device, 30, 5, 6)
    idx = torch.randint(0, 30, (3, 20, 4), generator=torch.Generator().manual_seed(1)).to(device)
    gathered = pytorch3d.knn_gather(x, idx)
    assert torch.equal(gathered, torch.stack([x[b][idx[b]] for b in range(3)]))
    some = pytorch3d.knn_gather(x, idx, lengths(device, [30, 2, 0]))
    assert torch.equal(some[0], gathered[0])
    assert torch.equal(some[1, :, :2], gathered[1, :, :2])
    assert (some[1, :, 2:] == 0).all()
    assert (some[2] == 0).all()
