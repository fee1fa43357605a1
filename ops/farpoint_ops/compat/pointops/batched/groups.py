"""Grouping modules of the batched ``pointops``: neighborhoods of centers and their features."""

from torch import Tensor, nn

from farpoint_ops.compat._batched import group_around, join
from farpoint_ops.compat.pointops.batched.functions import ballquery, knnquery_heap
from farpoint_ops.gather import group_points


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
