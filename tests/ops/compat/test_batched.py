"""Batched drop-ins, call by call: pointnet2_utils, and the batched pointops of D-PCC."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample, reference
from farpoint_ops.compat import pointnet2
from farpoint_ops.compat.pointops import batched as pointops


@pytest.fixture
def xyz(device: torch.device) -> Tensor:
    return torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(0)).to(device)


@pytest.fixture
def centers(xyz: Tensor) -> Tensor:
    return xyz[:, 3:12] + 0.01


def test_functions_of_both_libraries_are_the_same() -> None:
    for name, twin in (
        ("furthestsampling", "furthest_point_sample"),
        ("gathering", "gather_operation"),
        ("grouping", "grouping_operation"),
        ("nearestneighbor", "three_nn"),
        ("interpolation", "three_interpolate"),
        ("ballquery", "ball_query"),
    ):
        assert getattr(pointops, name) is getattr(pointnet2, twin)


def test_sampling_and_gathering(xyz: Tensor) -> None:
    idx = pointnet2.FurthestPointSampling.apply(xyz, 9)
    assert torch.equal(idx, farthest_point_sample(xyz, 9))
    gathered = pointnet2.GatherOperation.apply(xyz.mT, idx)
    assert torch.equal(gathered, reference.gather_points(xyz.mT, idx))


def test_three_nn_returns_distances_first_and_no_gradient(xyz: Tensor, centers: Tensor) -> None:
    dist, idx = pointnet2.three_nn(centers.requires_grad_(), xyz.requires_grad_())
    apart = torch.cdist(centers, xyz, compute_mode="donot_use_mm_for_euclid_dist")
    expected = apart.sort(dim=2)
    torch.testing.assert_close(dist, expected.values[..., :3].detach())
    assert torch.equal(idx.long(), expected.indices[..., :3])
    assert idx.dtype == torch.int32
    assert not dist.requires_grad


def test_a_cloud_of_fewer_than_k_points_counts_row_0_as_infinitely_far(xyz: Tensor) -> None:
    dist, idx = pointnet2.three_nn(xyz, xyz[:, :2])
    assert (dist[..., 2] == torch.inf).all()
    assert (idx[..., 2] == 0).all()
    assert dist[..., :2].isfinite().all()
    assert pointops.knnquery_heap(4, xyz[:, :2], xyz).shape == (2, 40, 4)


def test_weights_get_their_gradient(xyz: Tensor, centers: Tensor) -> None:
    _, idx = pointnet2.three_nn(xyz, centers)
    weight = torch.rand(2, 40, 3).to(xyz).requires_grad_()
    features = torch.rand(2, 5, 9).to(xyz).requires_grad_()
    out = pointnet2.three_interpolate(features, idx, weight)
    expected = reference.interpolate(features, idx, weight)
    torch.testing.assert_close(out, expected)
    actual = torch.autograd.grad(out.square().sum(), (features, weight))
    wanted = torch.autograd.grad(expected.square().sum(), (features, weight))
    torch.testing.assert_close(actual, wanted)


def test_ball_query_takes_the_radius_first(xyz: Tensor, centers: Tensor) -> None:
    idx = pointnet2.BallQuery.apply(0.2, 5, xyz, centers)
    assert torch.equal(idx, reference.ball_query(xyz, centers, 0.2, 5)[0])
    grouped = pointnet2.GroupingOperation.apply(xyz.mT, idx)
    assert torch.equal(grouped, reference.group_points(xyz.mT, idx))
    assert not pointnet2.ball_query(0.2, 5, xyz, centers + 10).any()


def test_query_and_group_of_pointnet2(xyz: Tensor, centers: Tensor) -> None:
    features = torch.rand(2, 4, 40).to(xyz)
    idx = pointnet2.ball_query(0.3, 6, xyz, centers)
    relative = reference.group_points(xyz.mT, idx) - centers.mT[..., None]
    grouped = reference.group_points(features, idx)
    with_xyz = pointnet2.QueryAndGroup(0.3, 6)(xyz, centers, features)
    assert torch.equal(with_xyz, torch.cat([relative, grouped], 1))
    without = pointnet2.QueryAndGroup(0.3, 6, use_xyz=False)
    assert torch.equal(without(xyz, centers, features), grouped)
    assert torch.equal(pointnet2.QueryAndGroup(0.3, 6)(xyz, centers), relative)
    with pytest.raises(ValueError, match="features: expected a tensor where use_xyz is False"):
        without(xyz, centers)


def test_query_and_group_of_dpcc(xyz: Tensor, centers: Tensor) -> None:
    features = torch.rand(2, 4, 40).to(xyz)
    idx = pointops.knnquery(6, xyz, centers)
    new_features, grouped, rows = pointops.QueryAndGroup(nsample=6, return_idx=True)(
        xyz, centers, features
    )
    assert torch.equal(grouped, reference.group_points(xyz.mT, idx))
    assert torch.equal(rows, idx.long())
    relative = grouped - centers.mT[..., None]
    assert torch.equal(
        new_features, torch.cat([relative, reference.group_points(features, idx)], 1)
    )
    assert len(pointops.QueryAndGroup(0.2, 6)(xyz)) == 2
    rows = pointops.QueryAndGroupForKPConv(0.2, 6)(xyz, centers)[2]
    assert torch.equal(rows, pointops.ballquery(0.2, 6, xyz, centers))
    given = pointops.QueryAndGroup(nsample=6)(xyz, centers, idx=idx)[1]
    assert torch.equal(given, grouped)


def test_group_all(xyz: Tensor) -> None:
    features = torch.rand(2, 4, 40).to(xyz)
    both = torch.cat([xyz.mT, features], 1).unsqueeze(2)
    assert torch.equal(pointnet2.GroupAll()(xyz, None, features), both)
    assert torch.equal(pointops.GroupAll()(xyz, None), xyz.mT.unsqueeze(2))
    assert torch.equal(pointops.GroupAll(use_xyz=False)(xyz, None, features), both[:, 3:])


def test_knn_queries_of_dpcc_return_rows_alone(xyz: Tensor, centers: Tensor) -> None:
    expected = reference.knn(xyz, centers, 7)[0]
    for query in (pointops.knnquery, pointops.knnquery_heap, pointops.KNNQuery_Heap.apply):
        assert torch.equal(query(7, xyz, centers), expected)
    itself = torch.arange(40, device=xyz.device).expand(2, -1)
    assert torch.equal(pointops.knnquery(3, xyz)[..., 0].long(), itself)
    others = pointops.knnquery_exclude(3, xyz)
    assert torch.equal(others, reference.knn(xyz, xyz, 4)[0][..., 1:])


def test_integers_are_grouped_as_int64(xyz: Tensor) -> None:
    labels = torch.arange(80, device=xyz.device).view(2, 1, 40)
    idx = pointops.knnquery(3, xyz)
    grouped = pointops.grouping_int(labels, idx)
    assert grouped.dtype == torch.int64
    assert torch.equal(grouped, reference.group_points(labels, idx))


def test_features_are_distributed_to_the_nearest(xyz: Tensor, centers: Tensor) -> None:
    idx = pointops.featuredistribute(centers, xyz)
    assert torch.equal(idx, reference.knn(centers, xyz, 1)[0][..., 0])
    features = torch.rand(2, 4, 9).to(xyz)
    gathered = pointops.featuregather(features, idx)
    assert torch.equal(gathered, reference.gather_points(features, idx))


def test_label_counts(xyz: Tensor, centers: Tensor) -> None:
    labels = (
        torch.nn.functional.one_hot(torch.arange(40) % 3).int().expand(2, -1, -1).to(xyz.device)
    )
    idx, found = reference.ball_query(xyz, centers, 0.4, 40)
    expected = torch.zeros(2, 9, 3, dtype=torch.int32, device=xyz.device)
    for b in range(2):
        for m in range(9):
            expected[b, m] = labels[b, idx[b, m, : found[b, m]].long()].sum(0)
    assert torch.equal(pointops.labelstat_ballrange(0.4, xyz, centers, labels), expected)
    few, rows = pointops.labelstat_and_ballquery(0.4, 2, xyz, centers, labels)
    assert torch.equal(rows, pointops.ballquery(0.4, 2, xyz, centers))
    assert torch.equal(few.sum(-1), found.clamp(max=2))
    nearest = pointops.knnquery(5, xyz, centers)
    assert (pointops.labelstat_idx(5, labels, nearest).sum(-1) == 5).all()
