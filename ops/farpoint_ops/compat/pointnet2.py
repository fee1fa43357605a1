"""Drop-in for ``pointnet2_ops.pointnet2_utils`` of Pointnet2_PyTorch.

Qi, Yi, Su and Guibas, "PointNet++: Deep Hierarchical Feature Learning on Point Sets in a Metric
Space", NeurIPS 2017. Change ``from pointnet2_ops import pointnet2_utils`` to
``from farpoint_ops.compat import pointnet2 as pointnet2_utils``.

Features are (B, C, N), coordinates (B, N, 3), indices int32. Indices and distances carry no
gradient; features and weights do.
"""

from torch import Tensor, nn

from farpoint_ops import fps, neighbors
from farpoint_ops.compat._applied import Applied
from farpoint_ops.compat._batched import GroupAll, group_around, join, nearest
from farpoint_ops.gather import gather_points, group_points
from farpoint_ops.interpolate import interpolate

__all__ = [
    "BallQuery",
    "FurthestPointSampling",
    "GatherOperation",
    "GroupAll",
    "GroupingOperation",
    "QueryAndGroup",
    "ThreeInterpolate",
    "ThreeNN",
    "ball_query",
    "furthest_point_sample",
    "gather_operation",
    "grouping_operation",
    "three_interpolate",
    "three_nn",
]


def furthest_point_sample(xyz: Tensor, npoint: int) -> Tensor:
    """(B, N, 3) -> the rows of npoint <= N samples, (B, npoint); the first is row 0."""
    return fps.furthest_point_sample(xyz, npoint)


def gather_operation(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, npoint) -> (B, C, npoint)."""
    return gather_points(features, idx)


def three_nn(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, 3), (B, m, 3) -> distances and rows of the three nearest known points, (B, n, 3)."""
    idx, distance = nearest(known, unknown, 3)
    return distance, idx


def three_interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, m), (B, n, 3), (B, n, 3) -> (B, C, n): weighted sums of three columns."""
    return interpolate(features, idx, weight)


def grouping_operation(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, npoint, nsample) -> (B, C, npoint, nsample)."""
    return group_points(features, idx)


def ball_query(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
    """(B, N, 3), (B, npoint, 3) -> rows of the first points in each ball, (B, npoint, nsample).

    The first row found fills the places left, row 0 where there is none.
    """
    return neighbors.ball_query(xyz, new_xyz, radius, nsample)[0]


class QueryAndGroup(nn.Module):
    """Groups of up to `nsample` points within `radius` of each center, relative to it."""

    def __init__(self, radius: float, nsample: int, use_xyz: bool = True) -> None:
        super().__init__()
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz

    def forward(self, xyz: Tensor, new_xyz: Tensor, features: Tensor | None = None) -> Tensor:
        """(B, N, 3), (B, npoint, 3), (B, C, N) -> (B, 3 + C, npoint, nsample)."""
        idx = ball_query(self.radius, self.nsample, xyz, new_xyz)
        _, relative = group_around(xyz, new_xyz, idx)
        grouped = None if features is None else group_points(features, idx)
        return join(relative, grouped, self.use_xyz)


FurthestPointSampling = Applied(furthest_point_sample)
GatherOperation = Applied(gather_operation)
ThreeNN = Applied(three_nn)
ThreeInterpolate = Applied(three_interpolate)
GroupingOperation = Applied(grouping_operation)
BallQuery = Applied(ball_query)
