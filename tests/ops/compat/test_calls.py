"""Drop-in calls and their equivalents in plain torch, one per line.

pointnet2 is pointnet2_utils with VoteNet's and OpenPCDet's additions, batched the pointops of
D-PCC, pointops those with offsets of Point Transformer and Pointcept.
"""

from typing import Any

import pytest
import torch
from tests.support import reference
from tests.support.tensors import random
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged
from farpoint_ops.compat import pointnet2, pointnet2_stack, pointops
from farpoint_ops.compat.pointops import batched

LIBRARIES = (pointnet2, pointnet2_stack, pointops, batched)
BATCHED = """
pointnet2.FurthestPointSampling.apply(xyz, 9) == fps(xyz, 9)
pointnet2.FarthestPointSampling.apply(xyz, 9) == fps(xyz, 9)
pointnet2.farthest_point_sample(xyz, 9) == fps(xyz, 9)
pointnet2_stack.farthest_point_sample(xyz, 9) == fps(xyz, 9)
pointnet2_stack.furthest_point_sample(xyz, 9) == fps(xyz, 9)
pointnet2.GatherOperation.apply(features, rows) == ref.gather_points(features, rows)
pointnet2.GroupingOperation.apply(features, ball) == grouped
pointnet2.GroupingOperation.apply(features, ball).sub_(1) == grouped - 1

pointnet2.BallQuery.apply(0.3, 6, xyz, centers) == ball
pointnet2.ball_query(0.3, 6, xyz, centers + 10) == ball * 0
pointnet2.three_nn(centers, xyz)[0] == ref.knn(xyz, centers, 3)[1].sqrt().detach()
pointnet2.three_nn(centers, xyz)[1] == ref.knn(xyz, centers, 3)[0]
pointnet2.three_interpolate(few, near, weight) == interpolated
batched.knnquery(7, xyz, centers) == ref.knn(xyz, centers, 7)[0]
batched.knnquery_heap(7, xyz, centers) == ref.knn(xyz, centers, 7)[0]
batched.KNNQuery_Heap.apply(7, xyz, centers) == ref.knn(xyz, centers, 7)[0]
batched.knnquery(3, xyz) == ref.knn(xyz, xyz, 3)[0]

pointnet2.QueryAndGroup(0.3, 6)(xyz, centers, features) == cat([relative, grouped], 1)
pointnet2.QueryAndGroup(0.3, 6, use_xyz=False)(xyz, centers, features) == grouped
pointnet2.QueryAndGroup(0.3, 6)(xyz, centers) == relative
pointnet2.QueryAndGroup(0.3, 6, normalize_xyz=True)(xyz, centers) == relative / 0.3
pointnet2.QueryAndGroup(0.3, 6, ret_grouped_xyz=True)(xyz, centers, features)[1] == relative
pointnet2.GroupAll()(xyz, None, features) == everything
pointnet2.GroupAll(ret_grouped_xyz=True)(xyz, None, features)[0] == everything
pointnet2.GroupAll(ret_grouped_xyz=True)(xyz, None, features)[1] == everything[:, :3]
batched.GroupAll()(xyz, None) == everything[:, :3]
batched.GroupAll(use_xyz=False)(xyz, None, features) == everything[:, 3:]
batched.QueryAndGroup(nsample=6)(xyz, centers, features)[0] == cat([offsets6, features6], 1)
batched.QueryAndGroup(nsample=6)(xyz, centers, features)[1] == xyz6
batched.QueryAndGroup(nsample=6, return_idx=True)(xyz, centers, features)[2] == near6.long()
batched.QueryAndGroup(nsample=6)(xyz, centers, idx=ball)[1] == ref.group_points(xyz.mT, ball)
"""


def batch(device: torch.device) -> dict[str, Any]:
    """Points (2, 40, 3), centers (2, 9, 3) and what plain torch makes of them."""
    made = torch.Generator().manual_seed(0)
    xyz = torch.rand(2, 40, 3, generator=made).to(device).requires_grad_()
    centers, features = xyz[:, 3:12] + 0.01, random(device, 2, 4, 40).requires_grad_()
    ball, _ = reference.ball_query(xyz, centers, 0.3, 6)
    near6, _ = reference.knn(xyz, centers, 6)
    xyz6 = reference.group_points(xyz.mT, near6)
    few, weight = random(device, 2, 5, 9), random(device, 2, 40, 3)
    near = reference.knn(centers, xyz, 3)[0]

    return {
        **{"xyz": xyz, "centers": centers, "features": features},
        **{"rows": farthest_point_sample(xyz, 9), "few": few.requires_grad_()},
        **{"ball": ball, "grouped": reference.group_points(features, ball)},
        "relative": reference.group_points(xyz.mT, ball) - centers.mT[..., None],
        "everything": torch.cat([xyz.mT, features], 1).unsqueeze(2),
        **{"near": near, "weight": weight.requires_grad_()},
        "interpolated": reference.interpolate(few, near, weight),
        **{"near6": near6, "xyz6": xyz6, "offsets6": xyz6 - centers.mT[..., None]},
        "features6": reference.group_points(features, near6),
    }


WITH_OFFSETS = """
pointops.farthest_point_sampling(xyz, offset, new_offset) == sampled
pointops.furthestsampling(xyz, offset, new_offset) == sampled
pointops.FarthestPointSampling.apply(xyz, offset, new_offset) == sampled
pointops.FurthestSampling.apply(xyz, offset, new_offset) == sampled
pointops.knn_query(4, xyz, offset, new_xyz, new_offset)[0] == near
pointops.knn_query(4, xyz, offset, new_xyz, new_offset)[1] == distance
pointops.knnquery(4, xyz, new_xyz, offset, new_offset)[0] == near
pointops.knnquery(4, xyz, new_xyz, offset, new_offset)[1] == distance
pointops.KNNQuery.apply(4, xyz, offset, new_xyz, new_offset)[0] == near
pointops.KNNQuery.apply(3, xyz, offset)[0] == nearest(xyz, xyz, 3, SIZES)[0]
pointops.knnquery(3, xyz, None, offset, offset)[0] == nearest(xyz, xyz, 3, SIZES)[0]

pointops.grouping(near, feat, xyz, new_xyz, with_xyz=True) == both
pointops.grouping(near, feat, xyz) == both[..., 3:]
pointops.grouping2(feat, near) == both[..., 3:]
pointops.Grouping.apply(feat, near) == both[..., 3:]
pointops.knn_query_and_group(feat, xyz, offset, new_xyz, new_offset, None, 4, True)[0] == both
pointops.knn_query_and_group(feat, xyz, offset, new_xyz, new_offset, None, 4, True)[1] == near
pointops.knn_query_and_group(feat, xyz, idx=near)[0] == both[..., 3:]
pointops.queryandgroup(4, xyz, new_xyz, feat, None, offset, new_offset) == both
pointops.query_and_group(4, xyz, new_xyz, feat, None, offset, new_offset)[0] == both
pointops.query_and_group(4, xyz, new_xyz, feat, None, offset, new_offset)[1] == near
pointops.BallQuery.apply(5, 0.5, 0.1, xyz, offset, new_xyz, new_offset)[0] == shell
pointops.ball_query_and_group(feat, xyz, offset, new_xyz, new_offset, None, 0.5, 0.1, 5)[1] == shell
pointops.ball_query_and_group(feat, xyz, offset, new_xyz, new_offset, None, 0.5, 0.1, 5)[0] == there

pointops.offset2batch(offset) == tensor([0] * 30 + [1] * 2 + [2] * 48)
pointops.batch2offset(pointops.offset2batch(offset)) == offset.int()
"""
SIZES, QUERIES = [30, 2, 48], [6, 1, 10]


def nearest(xyz: Tensor, new_xyz: Tensor, k: int, queries: list[int]) -> tuple[Tensor, Tensor]:
    """Rows and distances, with -1 and 1e5 for what the cloud of two lacks."""
    rows, distances, first = [], [], 0
    for cloud, asked in zip(xyz.split(SIZES), new_xyz.split(queries), strict=True):
        found = min(k, len(cloud))
        idx, squared = reference.knn(cloud[None], asked[None], found)
        fill = torch.nn.functional.pad
        rows.append(fill(idx[0] + first, (0, k - found), value=-1))
        distances.append(fill(squared[0].sqrt(), (0, k - found), value=1e5))
        first += len(cloud)
    return torch.cat(rows), torch.cat(distances)


def clouds(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Clouds of 30, 2 and 48 points, each query near a point of its own cloud."""
    xyz = torch.rand(80, 3, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    new_xyz = xyz[[*range(6), 30, *range(32, 42)]] + 0.01
    offset, new_offset = (torch.tensor(n).cumsum(0).to(device, dtype) for n in (SIZES, QUERIES))
    feat, (near, distance) = (
        random(device, 80, 6).requires_grad_(),
        nearest(xyz, new_xyz, 4, QUERIES),
    )
    relative = xyz[near.long()] - new_xyz[:, None]
    shell, _ = pointops.ball_query(5, 0.5, 0.1, xyz, offset, new_xyz, new_offset)
    return {
        **{"xyz": xyz, "new_xyz": new_xyz, "offset": offset, "new_offset": new_offset},
        "sampled": farthest_point_sample_ragged(xyz, [0, *offset.tolist()], QUERIES),
        **{
            "near": near,
            "distance": distance.detach(),
            "nearest": nearest,
            "SIZES": SIZES,
            "feat": feat,
        },
        "both": torch.cat([relative, feat[near.long()]], -1) * (near >= 0)[..., None],
        **{"shell": shell, "there": feat[shell.long()] * (shell >= 0)[..., None]},
        "tensor": lambda values: torch.tensor(values, device=device),
    }


def gradients(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Of a weighted sum of the output; zeros where none reaches a leaf."""
    if not out.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape)
    return torch.autograd.grad(out, leaves, weights, retain_graph=True, materialize_grads=True)


def check(line: str, names: dict[str, Any]) -> None:
    """The same values, and the same gradients of all that has one."""
    leaves = [v for v in names.values() if isinstance(v, Tensor) and v.is_leaf and v.requires_grad]
    libraries = {library.__name__.split(".")[-1]: library for library in LIBRARIES}
    names |= {"ref": reference, "fps": farthest_point_sample, "cat": torch.cat, **libraries}
    call, expected = line.split(" == ")
    actual, wanted = eval(call, names), eval(expected, names)
    torch.testing.assert_close(actual, wanted)
    torch.testing.assert_close(gradients(actual, leaves), gradients(wanted, leaves))


@pytest.mark.parametrize("line", [line for line in BATCHED.splitlines() if line])
def test_batched_calls(device: torch.device, line: str) -> None:
    check(line, batch(device))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("line", [line for line in WITH_OFFSETS.splitlines() if line])
def test_calls_with_offsets(device: torch.device, line: str, dtype: torch.dtype) -> None:
    check(line, clouds(device, dtype))


def test_functions_of_both_libraries_are_the_same() -> None:
    for name, twin in (
        ("furthestsampling", "furthest_point_sample"),
        ("gathering", "gather_operation"),
        ("grouping", "grouping_operation"),
        ("nearestneighbor", "three_nn"),
        ("interpolation", "three_interpolate"),
        ("ballquery", "ball_query"),
    ):
        assert getattr(batched, name) is getattr(pointnet2, twin)


def test_missing_neighbors_are_infinitely_far(device: torch.device) -> None:
    xyz = batch(device)["xyz"]
    dist, idx = pointnet2.three_nn(xyz, xyz[:, :2])
    assert (dist[..., 2] == torch.inf).all()
    assert (idx[..., 2] == 0).all()
    assert dist[..., :2].isfinite().all()
    assert batched.knnquery_heap(4, xyz[:, :2], xyz).shape == (2, 40, 4)
    assert len(batched.QueryAndGroup(0.2, 6)(xyz)) == 2
