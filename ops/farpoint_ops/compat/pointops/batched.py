"""The batched ``pointops`` of D-PCC and PointWeb: (B, N, 3) coordinates, (B, C, N) features.

Functions whose names the flavor with offsets has too are reached through the package, which tells
the two apart by their arguments. Indices are int32. Indices, distances and counts carry no
gradient.
"""

import torch
from torch import Tensor, nn

from farpoint_ops import neighbors
from farpoint_ops.compat._batched import group_around, join, nearest
from farpoint_ops.gather import gather_points, group_points


def gathering(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, m) -> (B, C, m)."""
    return gather_points(features, idx)


def grouping_int(features: Tensor, idx: Tensor) -> Tensor:
    """Integer (B, C, N), (B, m, nsample) -> int64 (B, C, m, nsample)."""
    return group_points(features, idx).long()


def nearestneighbor(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, 3), (B, m, 3) -> distances and rows of the three nearest known points, (B, n, 3)."""
    idx, distance = nearest(known, unknown, 3)
    return distance, idx


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

    def query(self, xyz: Tensor, centers: Tensor) -> Tensor:
        """The rows of each group, (B, m, nsample)."""
        if self.radius is None:
            return knnquery_heap(self.nsample, xyz, centers)
        return ballquery(self.radius, self.nsample, xyz, centers)

    def group(
        self, xyz: Tensor, new_xyz: Tensor | None, features: Tensor | None, idx: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What `forward` returns, and the rows."""
        centers = xyz if new_xyz is None else new_xyz
        idx = self.query(xyz, centers) if idx is None else idx
        grouped_xyz, relative = group_around(xyz, centers, idx)
        grouped = None if features is None else group_points(features, idx)
        return join(relative, grouped, self.use_xyz), grouped_xyz, idx

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
        features, grouped_xyz, idx = self.group(xyz, new_xyz, features, idx)
        return (features, grouped_xyz, idx.long()) if self.return_idx else (features, grouped_xyz)


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
        return self.group(xyz, new_xyz, features, idx)
