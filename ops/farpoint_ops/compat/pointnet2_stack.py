"""Drop-in for OpenPCDet's ``pointnet2_stack.pointnet2_utils``.

Change ``from …pointnet2_stack import pointnet2_utils as pointnet2_stack_utils`` to
``from farpoint_ops.compat import pointnet2_stack as pointnet2_stack_utils``. A batch is flat, with
the number of points of each cloud in `batch_cnt` (integers). Features are (N, C).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from farpoint_ops._arguments import to_list
from farpoint_ops.compat._batched import Applied
from farpoint_ops.compat._checks import OptTensor, check_ball, check_rows, checked
from farpoint_ops.compat._clouds import spans_from
from farpoint_ops.compat.pointnet2 import FarthestPointSampling as FarthestPointSampling
from farpoint_ops.compat.pointnet2 import furthest_point_sample as furthest_point_sample
from farpoint_ops.fps import farthest_point_sample_ragged

farthest_point_sample = furthest_point_sample


@checked("xyz N 3, xyz_batch_cnt B int", num_samples="npoint", offsets="xyz_batch_cnt")
def stack_farthest_point_sample(
    xyz: Tensor, xyz_batch_cnt: Tensor, npoint: int | list[int] | Tensor
) -> Tensor:
    """(N, 3) -> rows of `xyz`, int32, npoint of each cloud, concatenated."""
    bounds = _bounds("xyz_batch_cnt", xyz_batch_cnt, xyz)
    rows: Tensor = farthest_point_sample_ragged(xyz, bounds, npoint)
    return rows


@checked("xyz N 3, xyz_batch_cnt B int, new_xyz M 3, new_xyz_batch_cnt B int")
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
    check_ball(radius, nsample)
    bounds = _bounds("xyz_batch_cnt", xyz_batch_cnt, xyz)
    asked = _bounds("new_xyz_batch_cnt", new_xyz_batch_cnt, new_xyz)
    within = torch.full([], radius, dtype=torch.float64, device="cpu")
    rows = torch.ops.farpoint._search(
        xyz.detach(), new_xyz.detach(), spans_from(bounds), spans_from(asked), nsample, within
    )
    empty = rows[:, 0] < 0
    rows = rows.where(rows >= 0, rows[:, :1]) - _first_rows(bounds, asked, new_xyz)
    return rows.masked_fill(empty[:, None], 0).int(), empty


@checked("features N C, features_batch_cnt B int, idx M nsample int, idx_batch_cnt B int")
def grouping_operation(
    features: Tensor, features_batch_cnt: Tensor, idx: Tensor, idx_batch_cnt: Tensor
) -> Tensor:
    """(N, C), (M, nsample) -> (M, C, nsample), with a gradient for the features."""
    bounds = _bounds("features_batch_cnt", features_batch_cnt, features)
    rows = idx + _first_rows(bounds, _bounds("idx_batch_cnt", idx_batch_cnt, idx), idx)
    check_rows("idx", rows, features.size(0))
    return features[rows].transpose(1, 2)


class QueryAndGroup(nn.Module):
    """Groups of up to `nsample` points within `radius` of each center, relative to it."""

    @checked()
    def __init__(self, radius: float, nsample: int, use_xyz: bool = True) -> None:
        super().__init__()
        check_ball(radius, nsample)
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz

    @checked("xyz N 3, xyz_batch_cnt B int, new_xyz M 3, new_xyz_batch_cnt B int, features N C")
    def forward(
        self,
        xyz: Tensor,
        xyz_batch_cnt: Tensor,
        new_xyz: Tensor,
        new_xyz_batch_cnt: Tensor,
        features: OptTensor = None,
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


@checked(
    "unknown N 3, unknown_batch_cnt B int, known M 3, known_batch_cnt B int",
    xyz="known",
    queries="unknown",
)
def three_nn(
    unknown: Tensor, unknown_batch_cnt: Tensor, known: Tensor, known_batch_cnt: Tensor
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> distances and rows of `known` of the three nearest, (N, 3).

    A cloud of fewer than three repeats the nearest at an infinite distance.
    """
    bounds = _bounds("known_batch_cnt", known_batch_cnt, known)
    asked = _bounds("unknown_batch_cnt", unknown_batch_cnt, unknown)
    idx, squared = torch.ops.farpoint.knn_ragged(known.detach(), unknown.detach(), 3, bounds, asked)
    return squared.sqrt(), idx.where(idx >= 0, idx[:, :1])


@checked("features M C, idx N K int, weight N K")
def three_interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(M, C), (N, 3), (N, 3) -> (N, C): weighted sums of three rows, with every gradient."""
    check_rows("idx", idx, features.size(0))
    return (features[idx.long()] * weight[..., None]).sum(1)


def _bounds(name: str, counts: Tensor, points: Tensor) -> Tensor:
    """Where each cloud begins, and the last ends, int64 (B + 1,)."""
    if not torch.compiler.is_compiling():
        sizes = to_list(name, counts)
        if sum(sizes) != len(points) or min(sizes, default=0) < 0:
            raise ValueError(f"{name}: expected numbers that add up to {len(points)}, got {sizes}")
    return pad(counts.to(points.device).cumsum(0), (1, 0))


def _first_rows(bounds: Tensor, asked: Tensor, queries: Tensor) -> Tensor:
    """The first row of the cloud of each query (M, 1)."""
    counts = asked.diff()
    return bounds[:-1].repeat_interleave(counts, output_size=queries.size(0))[:, None]


StackFarthestPointSampling = Applied(stack_farthest_point_sample)
BallQuery = Applied(ball_query)
GroupingOperation = Applied(grouping_operation)
ThreeNN = Applied(three_nn)
ThreeInterpolate = Applied(three_interpolate)
