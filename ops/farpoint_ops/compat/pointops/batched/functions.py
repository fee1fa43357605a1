"""Sampling, gathering, grouping, neighbor queries and interpolation of the batched ``pointops``.

Indices are int32. Indices and distances carry no gradient.
"""

from torch import Tensor

from farpoint_ops import fps, neighbors
from farpoint_ops.compat._batched import nearest
from farpoint_ops.gather import gather_points, group_points
from farpoint_ops.interpolate import interpolate


def furthestsampling(xyz: Tensor, m: int) -> Tensor:
    """(B, n, 3) -> the rows of m <= n samples, (B, m); the first is row 0."""
    return fps.farthest_point_sample(xyz, m)


def gathering(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, m) -> (B, C, m)."""
    return gather_points(features, idx)


def grouping(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, m, nsample) -> (B, C, m, nsample)."""
    return group_points(features, idx)


def grouping_int(features: Tensor, idx: Tensor) -> Tensor:
    """Integer (B, C, N), (B, m, nsample) -> int64 (B, C, m, nsample)."""
    return group_points(features, idx).long()


def nearestneighbor(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, 3), (B, m, 3) -> distances and rows of the three nearest known points, (B, n, 3)."""
    idx, distance = nearest(known, unknown, 3)
    return distance, idx


def interpolation(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, m), (B, n, 3), (B, n, 3) -> (B, C, n): weighted sums of three columns."""
    return interpolate(features, idx, weight)


def ballquery(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
    """(B, n, 3), (B, m, 3) -> rows of the first nsample points in each ball, (B, m, nsample)."""
    return neighbors.ball_query(xyz, new_xyz, radius, nsample)[0]


def knnquery_heap(nsample: int, xyz: Tensor, new_xyz: Tensor | None = None) -> Tensor:
    """(B, n, 3), (B, m, 3) -> rows of the nearest points, nearest first, (B, m, nsample)."""
    return nearest(xyz, xyz if new_xyz is None else new_xyz, nsample)[0]


def knnquery_exclude(nsample: int, xyz: Tensor, new_xyz: Tensor | None = None) -> Tensor:
    """As `knnquery_heap`, without the nearest: the point itself where the two are one cloud."""
    return knnquery_heap(nsample + 1, xyz, new_xyz)[..., 1:]


def featuredistribute(max_xyz: Tensor, xyz: Tensor) -> Tensor:
    """(B, n, 3), (B, m, 3) -> the row of `max_xyz` nearest to each point, (B, m)."""
    return neighbors.nearest_sample(xyz, max_xyz)[0]


def featuregather(max_feature: Tensor, distribute_idx: Tensor) -> Tensor:
    """(B, C, n), (B, m) -> (B, C, m)."""
    return gather_points(max_feature, distribute_idx)
