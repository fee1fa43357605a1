"""pytorch3d's point cloud ops by their definitions in plain torch, gradients included."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample
from farpoint_ops.compat import knn_cuda, pytorch3d

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


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("d", [2, 3, 9])
def test_knn_points(device: torch.device, d: int, norm: int) -> None:
    p1, p2 = (points(device, n, d, n).requires_grad_() for n in (20, 30))
    sizes = lengths(device, LENGTHS), lengths(device, OTHERS)
    found = pytorch3d.knn_points(p1, p2, *sizes, norm=norm, K=5, return_nn=True)
    assert found.dists.shape == found.idx.shape == (3, 20, 5)
    total = p1.new_zeros(())
    for b, (n, m) in enumerate(zip(LENGTHS, OTHERS, strict=True)):
        apart = p1[b, :n, None] - p2[b, :m]
        distances = (apart.square() if norm == 2 else apart.abs()).sum(-1)
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
    with pytest.raises(ValueError, match=r"Support for 1 or 2 norm\."):
        pytorch3d.knn_points(p1, p2, norm=3)


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
    with pytest.raises(ValueError, match="k: expected at most 30, the points, got 31"):
        knn_cuda.KNN(31, True)(ref, query)


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


def test_wrong_lengths_are_named(device: torch.device) -> None:
    cloud = points(device, 20, 3, 1)
    with pytest.raises(ValueError, match="lengths: expected 3 values of 0 to 20, got"):
        pytorch3d.knn_points(cloud, cloud, lengths(device, [20, 21, 3]))
    with pytest.raises(ValueError, match="K: expected 3 values, one a cloud, got 2"):
        pytorch3d.sample_farthest_points(cloud, K=[1, 2])
