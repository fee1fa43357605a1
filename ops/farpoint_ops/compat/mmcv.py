"""Drop-in for the point cloud ops of ``mmcv.ops``, as MMDetection3D calls them.

Change ``from mmcv.ops import …`` to ``from farpoint_ops.compat.mmcv import …``. Coordinates are
(B, N, 3), features (B, C, N), indices int32. With the number of points of each cloud
(`…_batch_cnt`) batches are flat, as in `farpoint_ops.compat.pointnet2_stack`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from farpoint_ops import fps, neighbors
from farpoint_ops.compat import pointnet2_stack as stack
from farpoint_ops.compat._batched import GroupAll, query_and_group
from farpoint_ops.compat.pointnet2 import furthest_point_sample, three_interpolate, three_nn
from farpoint_ops.gather import gather_points, group_points

__all__ = [
    "GroupAll",
    "PointsSampler",
    "QueryAndGroup",
    "ball_query",
    "furthest_point_sample",
    "furthest_point_sample_with_dist",
    "gather_points",
    "grouping_operation",
    "knn",
    "three_interpolate",
    "three_nn",
]


def furthest_point_sample_with_dist(points_dist: Tensor, num_points: int) -> Tensor:
    """Distances of all pairs (B, N, N) -> the rows of the samples (B, num_points)."""
    rows = fps.farthest_point_sample_with_distances(points_dist, num_points)
    assert isinstance(rows, Tensor)
    return rows


def grouping_operation(
    features: Tensor,
    indices: Tensor,
    features_batch_cnt: Tensor | None = None,
    indices_batch_cnt: Tensor | None = None,
) -> Tensor:
    """(B, C, N), (B, M, K) -> (B, C, M, K); flat (N, C), (M, K) -> (M, C, K).

    In a flat batch a row that its cloud does not have is 0.
    """
    if features_batch_cnt is None or indices_batch_cnt is None:
        return group_points(features, indices)
    sizes, firsts = (
        values.repeat_interleave(indices_batch_cnt)[:, None]
        for values in (features_batch_cnt, features_batch_cnt.cumsum(0) - features_batch_cnt)
    )
    exists = (indices >= 0) & (indices < sizes)
    rows = (indices + firsts).where(exists, len(features))
    return pad(features, (0, 0, 0, 1))[rows].transpose(1, 2)


def ball_query(
    min_radius: float,
    max_radius: float,
    sample_num: int,
    xyz: Tensor,
    center_xyz: Tensor,
    xyz_batch_cnt: Tensor | None = None,
    center_xyz_batch_cnt: Tensor | None = None,
) -> Tensor:
    """(B, N, 3), (B, M, 3) -> rows of the first points in each shell, (B, M, sample_num).

    The first row found fills the places left, row 0 where there is none. Flat batches have no
    `min_radius`, and -1 in the first place of an empty ball.
    """
    if xyz_batch_cnt is None or center_xyz_batch_cnt is None:
        return neighbors.ball_query(xyz, center_xyz, max_radius, sample_num, min_radius=min_radius)[
            0
        ]
    idx, empty = stack.ball_query(
        max_radius, sample_num, xyz, xyz_batch_cnt, center_xyz, center_xyz_batch_cnt
    )
    idx[:, 0] = idx[:, 0].masked_fill(empty, -1)
    return idx


def knn(k: int, xyz: Tensor, center_xyz: Tensor | None = None, transposed: bool = False) -> Tensor:
    """(B, N, 3), (B, M, 3) -> rows of the k nearest (B, k, M); `transposed` for (B, 3, N)."""
    centers = xyz if center_xyz is None else center_xyz
    if transposed:
        xyz, centers = xyz.transpose(1, 2), centers.transpose(1, 2)
    return neighbors.knn(xyz.detach(), centers.detach(), k)[0].transpose(1, 2).contiguous()


class QueryAndGroup(nn.Module):
    """Groups of points in a shell around each center, or its nearest where `max_radius` is None."""

    def __init__(
        self,
        max_radius: float | None,
        sample_num: int,
        min_radius: float = 0.0,
        use_xyz: bool = True,
        return_grouped_xyz: bool = False,
        normalize_xyz: bool = False,
        uniform_sample: bool = False,
        return_unique_cnt: bool = False,
        return_grouped_idx: bool = False,
    ) -> None:
        super().__init__()
        if return_unique_cnt and not uniform_sample:
            raise ValueError("return_unique_cnt: expected uniform_sample with it, got False")
        if max_radius is None and normalize_xyz:
            raise ValueError("normalize_xyz: expected a max_radius with it, got None")
        self.max_radius, self.min_radius, self.sample_num = max_radius, min_radius, sample_num
        self.use_xyz, self.normalize_xyz = use_xyz, normalize_xyz
        self.uniform_sample, self.return_unique_cnt = uniform_sample, return_unique_cnt
        self.return_grouped_xyz, self.return_grouped_idx = return_grouped_xyz, return_grouped_idx

    def forward(
        self, points_xyz: Tensor, center_xyz: Tensor, features: Tensor | None = None
    ) -> Any:
        """(B, N, 3), (B, M, 3), (B, C, N) -> (B, 3 + C, M, K).

        Then, where asked for, the coordinates as they are (B, 3, M, K), the numbers of different
        rows, float32 (B, M), and the rows (B, M, K).
        """
        groups = query_and_group(
            *(points_xyz, center_xyz, features, self.max_radius, self.sample_num),
            min_radius=self.min_radius,
            use_xyz=self.use_xyz,
            normalize=self.normalize_xyz,
            uniformly=self.uniform_sample,
        )
        answer = [groups.joined]
        answer += [groups.xyz] if self.return_grouped_xyz else []
        answer += [groups.different] if self.return_unique_cnt else []
        answer += [groups.idx] if self.return_grouped_idx else []
        return answer[0] if len(answer) == 1 else tuple(answer)


class PointsSampler(nn.Module):
    """Samples parts of a cloud one after the other: by coordinates, by features, or by both.

    Yang, Sun, Liu and Jia, "3DSSD", CVPR 2020.

    Args:
        num_point: Samples of each part; "FS" gives twice as many.
        fps_mod_list: "D-FPS" (coordinates), "F-FPS" (squared distances of coordinates and
            features together) or "FS" (the samples of both, one behind the other), for each part.
        fps_sample_range_list: Where each part ends; -1 is the last point.
    """

    def __init__(
        self,
        num_point: Sequence[int],
        fps_mod_list: Sequence[str] = ("D-FPS",),
        fps_sample_range_list: Sequence[int] = (-1,),
    ) -> None:
        super().__init__()
        if not len(num_point) == len(fps_mod_list) == len(fps_sample_range_list):
            raise ValueError("num_point, fps_mod_list, fps_sample_range_list: expected one length")
        if unknown := set(fps_mod_list) - {"D-FPS", "F-FPS", "FS"}:
            raise ValueError(f"fps_mod_list: expected D-FPS, F-FPS or FS, got {sorted(unknown)}")
        self.parts = list(zip(num_point, fps_mod_list, fps_sample_range_list, strict=True))

    def forward(self, points_xyz: Tensor, features: Tensor | None) -> Tensor:
        """(B, N, 3), (B, C, N) -> rows of all samples (B, M)."""
        rows, begin = [], 0
        for count, kind, last in self.parts:
            end = points_xyz.size(1) if last == -1 else last
            xyz = points_xyz[:, begin:end].float()
            part = None if features is None else features[:, :, begin:end].float()
            if kind != "D-FPS":
                rows.append(begin + furthest_point_sample_with_dist(_squared(xyz, part), count))
            if kind != "F-FPS":
                rows.append(begin + furthest_point_sample(xyz, count))
            begin = end
        return torch.cat(rows, dim=1)


def _squared(xyz: Tensor, features: Tensor | None) -> Tensor:
    """Squared distances of coordinates and features together (B, N, N)."""
    if features is None:
        raise ValueError("features: expected a tensor for F-FPS and FS, got None")
    both = torch.cat([xyz, features.transpose(1, 2)], dim=2).detach()
    return torch.cdist(both, both).square()
