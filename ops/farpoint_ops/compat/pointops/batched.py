"""Drop-in for the batched ``pointops`` of D-PCC and PointWeb: (B, N, 3), features (B, C, N).

Change ``from models.pointops.functions import pointops`` to
``from farpoint_ops.compat.pointops import batched as pointops``.

Indices are int32. Indices, distances and counts carry no gradient; features and weights do.
"""

from torch import Tensor, nn

from farpoint_ops.compat import pointnet2
from farpoint_ops.compat._batched import Applied, nearest, query_and_group
from farpoint_ops.compat._batched import GroupAll as GroupAll
from farpoint_ops.compat._checks import OptTensor, check_ball, checked

ballquery = pointnet2.ball_query
furthestsampling = pointnet2.furthest_point_sample
gathering = pointnet2.gather_operation
grouping = pointnet2.grouping_operation
interpolation = pointnet2.three_interpolate
nearestneighbor = pointnet2.three_nn


@checked("xyz B n 3, new_xyz B m 3", queries="new_xyz", k="nsample")
def knnquery_heap(nsample: int, xyz: Tensor, new_xyz: OptTensor = None) -> Tensor:
    """(B, n, 3), (B, m, 3) -> rows of the nearest points, nearest first, (B, m, nsample)."""
    return nearest(xyz, xyz if new_xyz is None else new_xyz, nsample)[0]


class QueryAndGroup(nn.Module):
    """Groups around centers: within `radius` of them, or the nearest where it is None."""

    @checked()
    def __init__(
        self,
        radius: float | None = None,
        nsample: int = 32,
        use_xyz: bool = True,
        return_idx: bool = False,
    ) -> None:
        super().__init__()
        check_ball(radius, nsample)
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz
        self.return_idx = return_idx

    @checked("xyz B n 3, new_xyz B m 3, features B C n, idx B m _ int", centers="new_xyz")
    def forward(
        self,
        xyz: Tensor,
        new_xyz: OptTensor = None,
        features: OptTensor = None,
        idx: OptTensor = None,
    ) -> tuple[Tensor, ...]:
        """(B, 3 + C, m, nsample) relative to the centers, (B, 3, m, nsample) as they are.

        With `return_idx` also the rows, int64 (B, m, nsample).
        """
        centers = xyz if new_xyz is None else new_xyz
        groups = query_and_group(
            xyz, centers, features, self.radius, self.nsample, use_xyz=self.use_xyz, idx=idx
        )
        rows = [groups.idx.long()] if self.return_idx else []
        return (groups.joined, groups.xyz, *rows)


knnquery = knnquery_heap

FurthestSampling = pointnet2.FurthestPointSampling
Gathering = pointnet2.GatherOperation
Grouping = pointnet2.GroupingOperation
NearestNeighbor = pointnet2.ThreeNN
Interpolation = pointnet2.ThreeInterpolate
BallQuery = pointnet2.BallQuery
KNNQuery = KNNQuery_Heap = Applied(knnquery_heap)
