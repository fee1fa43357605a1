"""Drop-in for ``pointnet2_ops.pointnet2_utils`` of Pointnet2_PyTorch.

Qi, Yi, Su and Guibas, "PointNet++: Deep Hierarchical Feature Learning on Point Sets in a Metric
Space", NeurIPS 2017. Change ``from pointnet2_ops import pointnet2_utils`` to
``from farpoint_ops.compat import pointnet2 as pointnet2_utils``. It stands in for the
``pointnet2_utils`` of VoteNet and of OpenPCDet's ``pointnet2_batch`` too.

Features are (B, C, N), coordinates (B, N, 3), indices int32. Indices and distances carry no
gradient; features and weights do.
"""

from typing import Any

from torch import Tensor, nn

from farpoint_ops import fps, neighbors
from farpoint_ops.compat._batched import Applied, nearest, query_and_group
from farpoint_ops.compat._batched import GroupAll as GroupAll
from farpoint_ops.compat._checks import OptTensor, check_ball, checked
from farpoint_ops.gather import gather_points, group_points, interpolate


@checked("xyz B N D", num_samples="npoint")
def furthest_point_sample(xyz: Tensor, npoint: int) -> Tensor:
    """(B, N, 3) -> the rows of npoint <= N samples, (B, npoint); the first is row 0."""
    rows: Tensor = fps.farthest_point_sample(xyz, npoint)
    return rows


@checked("features B C N, idx B npoint int")
def gather_operation(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, npoint) -> (B, C, npoint)."""
    return gather_points(features, idx)


@checked("unknown B n 3, known B m 3", xyz="known", queries="unknown")
def three_nn(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, 3), (B, m, 3) -> distances and rows of the three nearest known points, (B, n, 3)."""
    idx, distance = nearest(known, unknown, 3)
    return distance, idx


@checked("features B C m, idx B n K int, weight B n K")
def three_interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, m), (B, n, 3), (B, n, 3) -> (B, C, n): weighted sums of three columns."""
    return interpolate(features, idx, weight)


@checked("features B C N, idx B npoint nsample int")
def grouping_operation(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, npoint, nsample) -> (B, C, npoint, nsample)."""
    return group_points(features, idx)


@checked("xyz B N 3, new_xyz B M 3", centers="new_xyz", k="nsample")
def ball_query(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
    """(B, N, 3), (B, npoint, 3) -> rows of the first points in each ball, (B, npoint, nsample).

    The first row found fills the places left, row 0 where there is none.
    """
    return neighbors.ball_query(xyz, new_xyz, radius, nsample)[0]


class QueryAndGroup(nn.Module):
    """Groups of up to `nsample` points within `radius` of each center, relative to it.

    The arguments behind `use_xyz` are those of VoteNet's: also return the coordinates, divide
    them by the radius, fill groups with random ones of their rows instead of the first, and also
    return how many different rows each has.
    """

    @checked()
    def __init__(
        self,
        radius: float,
        nsample: int,
        use_xyz: bool = True,
        ret_grouped_xyz: bool = False,
        normalize_xyz: bool = False,
        sample_uniformly: bool = False,
        ret_unique_cnt: bool = False,
    ) -> None:
        super().__init__()
        check_ball(radius, nsample)
        if ret_unique_cnt and not sample_uniformly:
            raise ValueError("ret_unique_cnt: expected sample_uniformly with it, got False")
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz
        self.ret_grouped_xyz, self.normalize_xyz = ret_grouped_xyz, normalize_xyz
        self.sample_uniformly, self.ret_unique_cnt = sample_uniformly, ret_unique_cnt

    @checked("xyz B N 3, new_xyz B M 3, features B C N", centers="new_xyz")
    def forward(self, xyz: Tensor, new_xyz: Tensor, features: OptTensor = None) -> Any:
        """(B, N, 3), (B, npoint, 3), (B, C, N) -> (B, 3 + C, npoint, nsample).

        Then, where asked for, the coordinates as they were joined (B, 3, npoint, nsample), and
        the numbers of different rows, float32 (B, npoint).
        """
        groups = query_and_group(
            xyz,
            new_xyz,
            features,
            self.radius,
            self.nsample,
            use_xyz=self.use_xyz,
            normalize=self.normalize_xyz,
            uniformly=self.sample_uniformly,
        )
        answer = [groups.joined]
        answer += [groups.relative] if self.ret_grouped_xyz else []
        answer += [groups.different] if self.ret_unique_cnt else []
        return answer[0] if len(answer) == 1 else tuple(answer)


farthest_point_sample = furthest_point_sample
FurthestPointSampling = Applied(furthest_point_sample)
FarthestPointSampling = FurthestPointSampling
GatherOperation = Applied(gather_operation)
ThreeNN = Applied(three_nn)
ThreeInterpolate = Applied(three_interpolate)
GroupingOperation = Applied(grouping_operation)
BallQuery = Applied(ball_query)
