"""The names that both flavors of ``pointops`` have, told apart by their arguments."""

from typing import cast

from torch import Tensor

from farpoint_ops import fps
from farpoint_ops.compat.pointops import batched
from farpoint_ops.compat.pointops.balls import ball_query
from farpoint_ops.compat.pointops.features import group_around, grouping2, interpolation2
from farpoint_ops.compat.pointops.queries import farthest_point_sampling, knn_query
from farpoint_ops.gather import group_points
from farpoint_ops.interpolate import interpolate


def furthestsampling(
    xyz: Tensor, m_or_offset: int | Tensor, new_offset: Tensor | None = None
) -> Tensor:
    """(B, n, 3), m -> rows (B, m); or (n, 3) with offsets -> rows of the flat batch."""
    if new_offset is None:
        return fps.furthest_point_sample(xyz, cast("int", m_or_offset))
    return farthest_point_sampling(xyz, cast("Tensor", m_or_offset), new_offset)


def knnquery(
    nsample: int,
    xyz: Tensor,
    new_xyz: Tensor | None = None,
    offset: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Rows (B, m, nsample); or with offsets, rows and distances (m, nsample)."""
    if offset is None:
        return batched.knnquery_heap(nsample, xyz, new_xyz)
    return knn_query(nsample, xyz, offset, new_xyz, new_offset)


def any_knn_query(
    nsample: int, xyz: Tensor, *others: Tensor | None
) -> Tensor | tuple[Tensor, Tensor]:
    """`knnquery`, or `knn_query`, whose offset (B,) comes before the queries (m, 3)."""
    if others and others[0] is not None and others[0].dim() == 1:
        return knn_query(nsample, xyz, others[0], *others[1:])
    return knnquery(nsample, xyz, *others)


def any_ball_query(
    first: float, second: float, third: float | Tensor, xyz: Tensor, *others: Tensor
) -> Tensor | tuple[Tensor, Tensor]:
    """`ballquery` of (radius, nsample, xyz, new_xyz), or `ball_query`, which has two radii."""
    if isinstance(third, Tensor):
        return batched.ballquery(first, int(second), third, xyz)
    return ball_query(int(first), second, third, xyz, *others)


def grouping(
    idx: Tensor,
    feat: Tensor,
    xyz: Tensor | None = None,
    new_xyz: Tensor | None = None,
    with_xyz: bool = False,
) -> Tensor:
    """Features (B, C, N) and rows (B, m, nsample) -> (B, C, m, nsample).

    Or features (n, c) and rows (m, nsample) -> (m, nsample, c); or with coordinates (n, 3) behind
    them, the rows first and then the features -> (m, nsample, c), or 3 + c where asked for.
    """
    if xyz is not None:
        return group_around(idx, feat, xyz, new_xyz, with_xyz)
    features, rows = idx, feat
    return group_points(features, rows) if features.dim() == 3 else grouping2(features, rows)


def interpolation(
    xyz: Tensor,
    new_xyz: Tensor,
    feat: Tensor,
    offset: Tensor | None = None,
    new_offset: Tensor | None = None,
    k: int = 3,
) -> Tensor:
    """Features (B, C, m), rows and weights (B, n, 3) -> (B, C, n); or, with offsets, (n, c)."""
    if offset is None or new_offset is None:
        features, idx, weight = xyz, new_xyz, feat
        return interpolate(features, idx, weight)
    return interpolation2(xyz, new_xyz, feat, offset, new_offset, k)
