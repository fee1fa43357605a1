"""VoteNet's arguments, OpenPCDet's stacks and the raw extensions, against plain torch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from farpoint_ops import ball_query, farthest_point_sample
from farpoint_ops.compat import (
    mmcv,
    pointnet2,
    pointnet2_batch_cuda,
    pointnet2_ext,
    pointnet2_stack,
)


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(2)).to(device)


def group(values: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, M, K) -> (B, C, M, K) by plain indexing."""
    return torch.stack([v[:, i.long()] for v, i in zip(values, idx, strict=True)])


@pytest.fixture
def inputs(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Points (2, 80, 3), centers (2, 9, 3), the last far away, and features (2, 5, 80)."""
    xyz = random(device, 2, 80, 3)
    centers = torch.cat([xyz[:, :8] + 0.01, xyz[:, :1] + 50], 1)
    return xyz, centers, random(device, 2, 5, 80)


@pytest.mark.parametrize("library", ["votenet", "mmcv"])
def test_groups_are_filled_uniformly(inputs: tuple[Tensor, Tensor, Tensor], library: str) -> None:
    """Every row found is there, nothing else is, and the rest is drawn from all of them."""
    xyz, centers, _ = inputs
    names = torch.arange(80.0, device=xyz.device).expand(2, 1, 80).contiguous()
    module: Any = (
        pointnet2.QueryAndGroup(0.3, 40, False, False, False, True, True)
        if library == "votenet"
        else mmcv.QueryAndGroup(0.3, 40, 0.0, False, False, False, True, True)
    )
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


def test_a_count_without_uniform_filling_is_an_error() -> None:
    with pytest.raises(ValueError, match="ret_unique_cnt: expected sample_uniformly"):
        pointnet2.QueryAndGroup(1.0, 2, ret_unique_cnt=True)
    with pytest.raises(ValueError, match="return_unique_cnt: expected uniform_sample"):
        mmcv.QueryAndGroup(1.0, 2, return_unique_cnt=True)
    with pytest.raises(ValueError, match="features: expected a tensor where use_xyz is False"):
        pointnet2.QueryAndGroup(0.3, 6, use_xyz=False)(torch.zeros(1, 4, 3), torch.zeros(1, 2, 3))
    with pytest.raises(ValueError, match="normalize_xyz: expected a max_radius"):
        mmcv.QueryAndGroup(None, 2, normalize_xyz=True)


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


def test_wrong_counts_are_named(device: torch.device) -> None:
    stack = Stack(device)
    with pytest.raises(ValueError, match=r"xyz_batch_cnt: .* add up to 80, got \[50\]"):
        pointnet2_stack.stack_farthest_point_sample(stack.xyz, stack.counts[:1], 3)
    with pytest.raises(ValueError, match="features: expected a tensor where use_xyz is False"):
        pointnet2_stack.QueryAndGroup(1.0, 2, use_xyz=False)(
            stack.xyz, stack.counts, stack.centers, stack.center_counts
        )


def test_wrappers_write_to_what_they_are_given(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """As OpenPCDet's and PointNeXt's functions call them, with gradients of plain torch."""
    raw, ext = pointnet2_batch_cuda, pointnet2_ext
    xyz, centers, features = inputs
    device = xyz.device
    rows = torch.empty(2, 7, dtype=torch.int32, device=device)
    assert raw.furthest_point_sampling_wrapper(2, 80, 7, xyz, torch.empty(0), rows) == 1
    assert torch.equal(rows, farthest_point_sample(xyz, 7))
    idx = torch.empty(2, 9, 12, dtype=torch.int32, device=device)
    raw.ball_query_wrapper(2, 80, 9, 0.4, 12, centers, xyz, idx)
    assert torch.equal(idx, ext.ball_query(centers, xyz, 0.4, 12))
    gathered, grouped = features.new_empty(2, 5, 7), features.new_empty(2, 5, 9, 12)
    raw.gather_points_wrapper(2, 5, 80, 7, features, rows, gathered)
    raw.group_points_wrapper(2, 5, 80, 9, 12, features, idx, grouped)
    twin = features.clone().requires_grad_()
    expected = group(twin, rows[..., None])[..., 0], group(twin, idx)
    assert torch.equal(gathered, expected[0])
    assert torch.equal(grouped, expected[1])
    for out, wrapper, sizes, index in (
        (expected[0], raw.gather_points_grad_wrapper, (7,), rows),
        (expected[1], raw.group_points_grad_wrapper, (9, 12), idx),
    ):
        weights = random(device, *out.shape)
        grad = torch.ones_like(features)
        wrapper(2, 5, 80, *sizes, weights, index, grad)
        (wanted,) = torch.autograd.grad((out * weights).sum(), twin)
        torch.testing.assert_close(grad, wanted + 1)


def test_wrappers_of_interpolation(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    raw = pointnet2_batch_cuda
    xyz, centers, _ = inputs
    squared, near = xyz.new_empty(2, 80, 3), torch.empty(2, 80, 3, dtype=torch.int32)
    near = near.to(xyz.device)
    raw.three_nn_wrapper(2, 80, 9, xyz, centers, squared, near)
    assert torch.equal(near, pointnet2_ext.three_nn(xyz, centers)[1])
    values = random(xyz.device, 2, 5, 9).requires_grad_()
    weight, out = random(xyz.device, 2, 80, 3), xyz.new_empty(2, 5, 80)
    raw.three_interpolate_wrapper(2, 5, 9, 80, values, near, weight, out)
    expected = (group(values, near) * weight[:, None]).sum(-1)
    torch.testing.assert_close(out, expected.detach())
    grad, weights = torch.zeros(2, 5, 9, device=xyz.device), random(xyz.device, 2, 5, 80)
    raw.three_interpolate_grad_wrapper(2, 5, 80, 9, weights, near, weight, grad)
    torch.testing.assert_close(grad, torch.autograd.grad((expected * weights).sum(), values)[0])


def test_mmcv_stacks(device: torch.device) -> None:
    stack = Stack(device)
    counts = stack.counts, stack.center_counts
    idx = mmcv.ball_query(0.0, 0.4, 8, stack.xyz, stack.centers, *counts)
    assert idx[4, 0] == -1
    idx[4, 0] = 0
    expected, _ = pointnet2_stack.ball_query(
        0.4, 8, stack.xyz, stack.counts, stack.centers, stack.center_counts
    )
    assert torch.equal(idx, expected)
    grouped = mmcv.grouping_operation(stack.features, idx, *counts)
    assert torch.equal(grouped[7], stack.features[50 + idx[7].long()].T)
    idx[:, :2] = torch.tensor([-1, 30], device=device, dtype=torch.int32)
    some = mmcv.grouping_operation(stack.features, idx, *counts)
    assert torch.equal(some[:6, :, 1], stack.features[30].expand(6, -1))
    assert not some[:, :, 0].any()
    assert not some[6:, :, 1].any(), "row 30 of a cloud of 30"


def test_a_sampler_by_coordinates_and_features(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """3DSSD's: the first part by features, the second by both."""
    xyz, _, features = inputs
    sampler = mmcv.PointsSampler([6, 4], ["F-FPS", "FS"], [40, -1])
    rows = sampler(xyz, features)
    both = torch.cat([xyz, features.mT], 2)
    squared = torch.cdist(both, both).square()
    first = mmcv.furthest_point_sample_with_dist(squared[:, :40, :40], 6)
    second = mmcv.furthest_point_sample_with_dist(squared[:, 40:, 40:], 4) + 40
    third = farthest_point_sample(xyz[:, 40:], 4) + 40
    assert rows.shape == (2, 14)
    assert torch.equal(rows, torch.cat([first, second, third], 1))
    with pytest.raises(ValueError, match=r"fps_mod_list: .*got \['X'\]"):
        mmcv.PointsSampler([1], ["X"], [-1])
    with pytest.raises(ValueError, match="features: expected a tensor for F-FPS"):
        sampler(xyz, None)
