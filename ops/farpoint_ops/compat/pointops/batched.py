"""Drop-in for the batched ``pointops`` of D-PCC and PointWeb: (B, N, 3), features (B, C, N).

Change ``from models.pointops.functions import pointops`` to
``from farpoint_ops.compat.pointops import batched as pointops``.

Indices are int32. Indices, distances and counts carry no gradient; features and weights do.
"""

import torch
from torch import Tensor, nn

from farpoint_ops import neighbors
from farpoint_ops.compat._batched import Applied, GroupAll, Groups, nearest, query_and_group
from farpoint_ops.compat.pointnet2 import ball_query as ballquery
from farpoint_ops.compat.pointnet2 import furthest_point_sample as furthestsampling
from farpoint_ops.compat.pointnet2 import gather_operation as gathering
from farpoint_ops.compat.pointnet2 import grouping_operation as grouping
from farpoint_ops.compat.pointnet2 import three_interpolate as interpolation
from farpoint_ops.compat.pointnet2 import three_nn as nearestneighbor
from farpoint_ops.gather import group_points

__all__ = [
    "BallQuery",
    "FeatureDistribute",
    "FeatureGather",
    "FurthestSampling",
    "Gathering",
    "GroupAll",
    "Grouping",
    "GroupingInt",
    "Interpolation",
    "KNNQuery",
    "KNNQueryExclude",
    "KNNQueryNaive",
    "KNNQuery_Heap",
    "LabelStatAndBallQuery",
    "LabelStatBallRange",
    "LabelStatIdx",
    "NearestNeighbor",
    "QueryAndGroup",
    "QueryAndGroupForKPConv",
    "ballquery",
    "featuredistribute",
    "featuregather",
    "furthestsampling",
    "gathering",
    "grouping",
    "grouping_int",
    "interpolation",
    "knnquery",
    "knnquery_exclude",
    "knnquery_heap",
    "knnquery_naive",
    "labelstat_and_ballquery",
    "labelstat_ballrange",
    "labelstat_idx",
    "nearestneighbor",
]


def grouping_int(features: Tensor, idx: Tensor) -> Tensor:
    """Integer (B, C, N), (B, m, nsample) -> int64 (B, C, m, nsample)."""
    return group_points(features, idx).long()


def knnquery_heap(nsample: int, xyz: Tensor, new_xyz: Tensor | None = None) -> Tensor:
    """(B, n, 3), (B, m, 3) -> rows of the nearest points, nearest first, (B, m, nsample)."""
    return nearest(xyz, xyz if new_xyz is None else new_xyz, nsample)[0]


def knnquery_exclude(nsample: int, xyz: Tensor, new_xyz: Tensor | None = None) -> Tensor:
    """As `knnquery_heap`, without the nearest: the point itself where the two are one cloud."""
    return knnquery_heap(nsample + 1, xyz, new_xyz)[..., 1:]


def featuredistribute(max_xyz: Tensor, xyz: Tensor) -> Tensor:
    """(B, n, 3), (B, m, 3) -> the row of `max_xyz` nearest to each point, (B, m)."""
    return neighbors.nearest_sample(xyz, max_xyz)[0]


def labelstat_idx(nsample: int, label_stat: Tensor, idx: Tensor) -> Tensor:
    """Label counts (B, n, classes) summed over idx (B, m, nsample) -> int32 (B, m, classes)."""
    grouped = group_points(label_stat.transpose(1, 2), idx[..., :nsample])
    return grouped.sum(-1).transpose(1, 2).int()


def labelstat_and_ballquery(
    radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor, label_stat: Tensor
) -> tuple[Tensor, Tensor]:
    """The label counts of the points that `ballquery` finds, each once, and its rows."""
    idx, counts = neighbors.ball_query(xyz, new_xyz, radius, nsample)
    found = torch.arange(nsample, device=idx.device) < counts.unsqueeze(-1)
    grouped = group_points(label_stat.transpose(1, 2), idx) * found.unsqueeze(1)
    return grouped.sum(-1).transpose(1, 2).int(), idx


def labelstat_ballrange(radius: float, xyz: Tensor, new_xyz: Tensor, label_stat: Tensor) -> Tensor:
    """The label counts of all points in each ball, int32 (B, m, classes)."""
    return labelstat_and_ballquery(radius, xyz.size(1), xyz, new_xyz, label_stat)[0]


class QueryAndGroup(nn.Module):
    """Groups around centers: within `radius` of them, or the nearest where it is None."""

    def __init__(
        self,
        radius: float | None = None,
        nsample: int = 32,
        use_xyz: bool = True,
        return_idx: bool = False,
    ) -> None:
        super().__init__()
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz
        self.return_idx = return_idx

    def group(
        self, xyz: Tensor, new_xyz: Tensor | None, features: Tensor | None, idx: Tensor | None
    ) -> Groups:
        """The groups around `new_xyz`, or around every point."""
        centers = xyz if new_xyz is None else new_xyz
        return query_and_group(
            *(xyz, centers, features, self.radius, self.nsample), use_xyz=self.use_xyz, idx=idx
        )

    def forward(
        self,
        xyz: Tensor,
        new_xyz: Tensor | None = None,
        features: Tensor | None = None,
        idx: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """(B, 3 + C, m, nsample) relative to the centers, (B, 3, m, nsample) as they are.

        With `return_idx` also the rows, int64 (B, m, nsample).
        """
        groups = self.group(xyz, new_xyz, features, idx)
        rows = [groups.idx.long()] if self.return_idx else []
        return (groups.joined, groups.xyz, *rows)


class QueryAndGroupForKPConv(QueryAndGroup):
    """`QueryAndGroup` that always returns the rows, in int32."""

    def __init__(
        self,
        radius: float | None = None,
        nsample: int = 32,
        use_xyz: bool = True,
        return_group_idx: bool = False,
    ) -> None:
        super().__init__(radius, nsample, use_xyz, return_group_idx)

    def forward(
        self,
        xyz: Tensor,
        new_xyz: Tensor | None = None,
        features: Tensor | None = None,
        idx: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """As `QueryAndGroup`, with the rows."""
        groups = self.group(xyz, new_xyz, features, idx)
        return groups.joined, groups.xyz, groups.idx


featuregather = gathering
knnquery = knnquery_naive = knnquery_heap

FurthestSampling = Applied(furthestsampling)
Gathering = FeatureGather = Applied(gathering)
Grouping = Applied(grouping)
GroupingInt = Applied(grouping_int)
NearestNeighbor = Applied(nearestneighbor)
Interpolation = Applied(interpolation)
BallQuery = Applied(ballquery)
KNNQuery = KNNQuery_Heap = KNNQueryNaive = Applied(knnquery_heap)
KNNQueryExclude = Applied(knnquery_exclude)
FeatureDistribute = Applied(featuredistribute)
LabelStatIdx = Applied(labelstat_idx)
LabelStatBallRange = Applied(labelstat_ballrange)
LabelStatAndBallQuery = Applied(labelstat_and_ballquery)
