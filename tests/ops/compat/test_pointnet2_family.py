"""VoteNet's arguments, OpenPCDet's stacks and pointops with offsets, against plain torch."""

import pytest
import torch
from tests.ops.compat.test_calls import clouds as make_clouds
from torch import Tensor

from farpoint_ops import ball_query, farthest_point_sample
from farpoint_ops.compat import pointnet2, pointnet2_stack, pointops


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(2)).to(device)


@pytest.fixture
def inputs(device: torch.device) -> tuple[Tensor, Tensor]:
    """Points (2, 80, 3), and centers (2, 9, 3), the last far away."""
    xyz = random(device, 2, 80, 3)
    centers = torch.cat([xyz[:, :8] + 0.01, xyz[:, :1] + 50], 1)
    return xyz, centers


def test_groups_are_filled_uniformly(inputs: tuple[Tensor, Tensor]) -> None:
    """Every row found is there, nothing else is, and the rest is drawn from all of them."""
    xyz, centers = inputs
    names = torch.arange(80.0, device=xyz.device).expand(2, 1, 80).contiguous()
    module = pointnet2.QueryAndGroup(0.3, 40, False, False, False, True, True)
    rows, unique = module(xyz, centers, names)
    counts = ball_query(xyz, centers, 0.3, 40)[1]
    assert torch.equal(unique, counts.clamp(min=1).float())
    found = ball_query(xyz, centers, 0.3, 40)[0]
    for b in range(2):
        for m in range(9):
            group_rows = rows[b, 0, m].long().tolist()
            assert set(group_rows) == set(found[b, m].tolist())
    filled = [rows[b, 0, m, int(counts[b, m]) :] for b in range(2) for m in range(8)]
    assert len(torch.cat(filled).unique()) > 16


class Stack:
    """Two clouds of 50 and 30 points, 6 and 4 centers, one of them far from everything."""

    def __init__(self, device: torch.device) -> None:
        self.xyz, self.features = random(device, 80, 3), random(device, 80, 5)
        self.centers = torch.cat([self.xyz[:6], self.xyz[50:54]]) + 0.01
        self.centers[4] += 50
        self.counts = torch.tensor([50, 30], dtype=torch.int32, device=device)
        self.center_counts = torch.tensor([6, 4], dtype=torch.int32, device=device)
        self.parts = [(slice(0, 50), slice(0, 6)), (slice(50, 80), slice(6, 10))]


def test_stacked_sampling(device: torch.device) -> None:
    stack = Stack(device)
    for wanted in ([7, 5], torch.tensor([7, 5], device=device)):
        rows = pointnet2_stack.stack_farthest_point_sample(stack.xyz, stack.counts, wanted)
        expected = [farthest_point_sample(stack.xyz[None, :50], 7)[0]]
        expected.append(farthest_point_sample(stack.xyz[None, 50:], 5)[0] + 50)
        assert torch.equal(rows, torch.cat(expected))
    assert len(pointnet2_stack.stack_farthest_point_sample(stack.xyz, stack.counts, 4)) == 8


def test_stacked_grouping_and_its_gradient(device: torch.device) -> None:
    stack = Stack(device)
    features = stack.features.requires_grad_()
    module = pointnet2_stack.QueryAndGroup(0.4, 8)
    grouped, idx = module(stack.xyz, stack.counts, stack.centers, stack.center_counts, features)
    expected = torch.zeros(10, 8, 8, device=device)
    twin = stack.features.detach().clone().requires_grad_()
    parts = []
    for points, queries in stack.parts:
        rows, found = ball_query(stack.xyz[None, points], stack.centers[None, queries], 0.4, 8)
        assert torch.equal(idx[queries], rows[0])
        near = stack.xyz[points][rows[0].long()] - stack.centers[queries][:, None]
        both = torch.cat([near, twin[points][rows[0].long()]], 2).mT
        parts.append(both * (found[0] > 0)[:, None, None])
    expected = torch.cat(parts)
    torch.testing.assert_close(grouped, expected)
    assert (grouped[4] == 0).all()
    weights = random(device, *grouped.shape)
    (actual_gradient,) = torch.autograd.grad((grouped * weights).sum(), features)
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), twin)
    torch.testing.assert_close(actual_gradient, expected_gradient)


def test_stacked_interpolation(device: torch.device) -> None:
    stack = Stack(device)
    distance, idx = pointnet2_stack.three_nn(
        stack.centers, stack.center_counts, stack.xyz, stack.counts
    )
    for points, queries in stack.parts:
        apart = torch.cdist(stack.centers[queries].double(), stack.xyz[points].double())
        nearest = apart.topk(3, largest=False)
        torch.testing.assert_close(distance[queries].double(), nearest.values)
        assert torch.equal(idx[queries].long() - points.start, nearest.indices)
    weight = random(device, 10, 3).requires_grad_()
    features = stack.features.requires_grad_()
    out = pointnet2_stack.three_interpolate(features, idx, weight)
    expected = torch.einsum("nkc,nk->nc", features[idx.long()], weight)
    torch.testing.assert_close(out, expected)
    for a, e in zip(
        torch.autograd.grad(out.square().sum(), [features, weight]),
        torch.autograd.grad(expected.square().sum(), [features, weight]),
        strict=True,
    ):
        torch.testing.assert_close(a, e)


def test_stacked_feature_propagation_where_coordinates_have_a_gradient(
    device: torch.device,
) -> None:
    """Distances carry none: OpenPCDet's own backward of three_nn returns too few gradients."""
    stack = Stack(device)
    known, features = stack.xyz.requires_grad_(), stack.features.requires_grad_()
    distance, idx = pointnet2_stack.three_nn(
        stack.centers.requires_grad_(), stack.center_counts, known, stack.counts
    )
    assert not distance.requires_grad
    weight = 1 / (distance + 1e-8)
    weight = weight / weight.sum(1, keepdim=True)
    pointnet2_stack.three_interpolate(features, idx, weight).sum().backward()
    torch.testing.assert_close(features.grad.sum(0), torch.full((5,), 10.0, device=device))
    assert known.grad is None


Clouds = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=[torch.int32, torch.int64])
def clouds(request: pytest.FixtureRequest, device: torch.device) -> Clouds:
    """Points and queries, and their offsets."""
    made = make_clouds(device, request.param)
    return tuple(made[name].detach() for name in ("xyz", "new_xyz", "offset", "new_offset"))


def test_ball_query_spreads_over_the_shell(clouds: Clouds) -> None:
    xyz, new_xyz, offset, new_offset = clouds
    idx, distance = pointops.ball_query(5, 0.5, 0.1, xyz, offset, new_xyz, new_offset)
    apart = torch.cdist(new_xyz, xyz, compute_mode="donot_use_mm_for_euclid_dist")
    cloud = pointops.offset2batch(offset)
    own = pointops.offset2batch(new_offset)[:, None] == cloud
    for m in range(len(new_xyz)):
        inside = own[m] & (apart[m] >= 0.1) & (apart[m] < 0.5)
        order = apart[m].masked_fill(~inside, torch.inf).argsort()[: inside.sum()].tolist()
        if len(order) > 5:
            order = [order[i * len(order) // 5] for i in range(5)]
        assert idx[m].tolist() == order + [-1] * (5 - len(order))
        torch.testing.assert_close(distance[m, : len(order)], apart[m, order])
    assert (distance[idx < 0] == 1e5).all()
    assert (idx >= 0).any()


def test_interpolation_leaves_out_what_does_not_exist(clouds: Clouds) -> None:
    xyz, new_xyz, offset, new_offset = clouds
    feat = torch.rand(80, 5).to(xyz)
    feat[[0, -1]] = 1e9  # of other clouds than the one that has too few points
    feat.requires_grad_()
    idx, distance = pointops.knn_query(3, xyz, offset, new_xyz, new_offset)
    weight = torch.where(idx < 0, 0, 1 / (distance + 1e-8))
    weight = weight / weight.sum(1, keepdim=True)
    expected = (feat[idx.long()] * weight[..., None]).sum(1)
    for interpolation in (pointops.interpolation, pointops.interpolation2):
        actual = interpolation(xyz, new_xyz, feat, offset, new_offset)
        torch.testing.assert_close(actual, expected)
        (grad,) = torch.autograd.grad(actual.square().sum(), feat)
        torch.testing.assert_close(
            grad, torch.autograd.grad(expected.square().sum(), feat, retain_graph=True)[0]
        )
