"""Drop-in for OpenPCDet's ``pointnet2_stack.pointnet2_utils``.

Change ``from …pointnet2_stack import pointnet2_utils as pointnet2_stack_utils`` to
``from farpoint_ops.compat import pointnet2_stack as pointnet2_stack_utils``. A batch is flat, with
the number of points of each cloud in `batch_cnt` (integers). Features are (N, C).
"""

from itertools import accumulate

import torch
from torch import Tensor, nn

from farpoint_ops._arguments import to_list
from farpoint_ops.compat._batched import Applied
from farpoint_ops.compat._clouds import pairs_of_clouds, within
from farpoint_ops.compat.pointnet2 import FarthestPointSampling as FarthestPointSampling
from farpoint_ops.compat.pointnet2 import furthest_point_sample as furthest_point_sample
from farpoint_ops.fps import farthest_point_sample_ragged

farthest_point_sample = furthest_point_sample


def stack_farthest_point_sample(
    xyz: Tensor, xyz_batch_cnt: Tensor, npoint: int | list[int] | Tensor
) -> Tensor:
    """(N, 3) -> rows of `xyz`, int32, npoint of each cloud, concatenated."""
    bounds = _bounds("xyz_batch_cnt", xyz_batch_cnt, xyz)
    return farthest_point_sample_ragged(xyz, bounds, npoint)


def ball_query(
    radius: float,
    nsample: int,
    xyz: Tensor,
    xyz_batch_cnt: Tensor,
    new_xyz: Tensor,
    new_xyz_batch_cnt: Tensor,
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> rows of the center's cloud, int32 (M, nsample), and which balls are empty.

    The first row found fills the places left, row 0 where there is none.
    """
    idx = torch.zeros(len(new_xyz), nsample, dtype=torch.int64, device=xyz.device)
    empty = torch.ones(len(new_xyz), dtype=torch.bool, device=xyz.device)
    sizes = _counts("xyz_batch_cnt", xyz_batch_cnt, xyz)
    for cloud, queries in pairs_of_clouds(
        sizes, _counts("new_xyz_batch_cnt", new_xyz_batch_cnt, new_xyz)
    ):
        rows, taken = within(xyz[cloud], new_xyz[queries], radius, nsample)
        idx[queries], empty[queries] = rows, ~taken[:, 0]
    return idx.int(), empty


def grouping_operation(
    features: Tensor, features_batch_cnt: Tensor, idx: Tensor, idx_batch_cnt: Tensor
) -> Tensor:
    """(N, C), (M, nsample) -> (M, C, nsample), with a gradient for the features."""
    firsts = torch.tensor(
        _bounds("features_batch_cnt", features_batch_cnt, features)[:-1], device=idx.device
    )
    counts = torch.tensor(_counts("idx_batch_cnt", idx_batch_cnt, idx), device=idx.device)
    rows = idx.long() + firsts.repeat_interleave(counts)[:, None]
    return features[rows].transpose(1, 2)


class QueryAndGroup(nn.Module):
    """Groups of up to `nsample` points within `radius` of each center, relative to it."""

    def __init__(self, radius: float, nsample: int, use_xyz: bool = True) -> None:
        super().__init__()
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz

    def forward(
        self,
        xyz: Tensor,
        xyz_batch_cnt: Tensor,
        new_xyz: Tensor,
        new_xyz_batch_cnt: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(N, 3), (M, 3), (N, C) -> (M, 3 + C, nsample), 0 in an empty ball; and the rows."""
        if features is None and not self.use_xyz:
            raise ValueError("features: expected a tensor where use_xyz is False, got None")
        idx, empty = ball_query(
            self.radius, self.nsample, xyz, xyz_batch_cnt, new_xyz, new_xyz_batch_cnt
        )
        grouped = []
        if self.use_xyz or features is None:
            near = grouping_operation(xyz, xyz_batch_cnt, idx, new_xyz_batch_cnt)
            grouped.append(near - new_xyz[..., None])
        if features is not None:
            grouped.append(grouping_operation(features, xyz_batch_cnt, idx, new_xyz_batch_cnt))
        return torch.cat(grouped, dim=1).masked_fill(empty[:, None, None], 0), idx


def three_nn(
    unknown: Tensor, unknown_batch_cnt: Tensor, known: Tensor, known_batch_cnt: Tensor
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> distances and rows of `known` of the three nearest, (N, 3).

    A cloud of fewer than three repeats the nearest at an infinite distance.
    """
    offsets, queries = (
        torch.tensor(_bounds(name, counts, points), device=known.device)
        for name, counts, points in (
            ("known_batch_cnt", known_batch_cnt, known),
            ("unknown_batch_cnt", unknown_batch_cnt, unknown),
        )
    )
    squared, idx = torch.ops.farpoint.knn_ragged(
        known.detach(), unknown.detach(), 3, offsets, queries
    )
    return squared.sqrt(), idx.where(idx >= 0, idx[:, :1])


def three_interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(M, C), (N, 3), (N, 3) -> (N, C): weighted sums of three rows, with every gradient."""
    return (features[idx.long()] * weight[..., None]).sum(1)


def _counts(name: str, counts: Tensor, points: Tensor) -> list[int]:
    """Points of each cloud, on the host."""
    sizes = to_list(name, counts)
    if sum(sizes) != len(points) or min(sizes, default=0) < 0:
        raise ValueError(f"{name}: expected numbers that add up to {len(points)}, got {sizes}")
    return sizes


def _bounds(name: str, counts: Tensor, points: Tensor) -> list[int]:
    return list(accumulate(_counts(name, counts, points), initial=0))


StackFarthestPointSampling = Applied(stack_farthest_point_sample)
BallQuery = Applied(ball_query)
GroupingOperation = Applied(grouping_operation)
ThreeNN = Applied(three_nn)
ThreeInterpolate = Applied(three_interpolate)
