"""Shared by the batched drop-ins: nearest neighbors without a gradient, grouping around centers."""

import math
from typing import Any

import torch
from torch import Tensor, cat, nn
from torch.nn.functional import pad

from farpoint_ops.gather import group_points
from farpoint_ops.neighbors import knn


def nearest(xyz: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows of `xyz` int32 (B, M, k) and distances (B, M, k), neither with a gradient.

    Where a cloud has fewer than k points, row 0 at an infinite distance fills the places left.
    """
    found = min(k, xyz.size(1))
    idx, squared = knn(xyz.detach(), queries.detach(), found)
    return pad(idx, (0, k - found)), pad(squared.sqrt(), (0, k - found), value=math.inf)


def group_around(xyz: Tensor, centers: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    """Neighbors (B, 3, M, K) of the centers (B, M, 3): as they are, and relative to the center."""
    grouped = group_points(xyz.transpose(1, 2), idx)
    return grouped, grouped - centers.transpose(1, 2).unsqueeze(-1)


def join(xyz: Tensor, features: Tensor | None, use_xyz: bool) -> Tensor:
    """Coordinates (B, 3, ...) in front of features (B, C, ...), or either alone."""
    if features is None:
        if not use_xyz:
            raise ValueError("features: expected a tensor where use_xyz is False, got None")
        return xyz
    return cat([xyz, features], dim=1) if use_xyz else features


def fill_uniformly(idx: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Groups whose places behind the rows found hold random ones of those, and their numbers.

    Args:
        idx: Rows (B, M, K) as `ball_query` returns them.
        counts: Rows found (B, M).

    Returns:
        Rows (B, M, K), and different rows of each group, float32 (B, M): 1 where none was found.
    """
    different = counts.clamp(min=1)
    places = torch.arange(idx.size(-1), device=idx.device).expand_as(idx)
    drawn = (torch.rand(idx.shape, device=idx.device) * different[..., None]).long()
    drawn = drawn.minimum(different[..., None].long() - 1)  # a product may round up
    filled = idx.gather(-1, torch.where(places < different[..., None], places, drawn))
    return filled, different.float()


class GroupAll(nn.Module):
    """All points of a cloud as one group."""

    def __init__(self, use_xyz: bool = True, ret_grouped_xyz: bool = False) -> None:
        super().__init__()
        self.use_xyz, self.ret_grouped_xyz = use_xyz, ret_grouped_xyz

    def forward(
        self,
        xyz: Tensor,
        new_xyz: Tensor | None,  # noqa: ARG002  as QueryAndGroup has it
        features: Tensor | None = None,
    ) -> Any:
        """(B, N, 3), anything, (B, C, N) -> (B, 3 + C, 1, N).

        With `ret_grouped_xyz` also the coordinates (B, 3, 1, N).
        """
        grouped = xyz.transpose(1, 2).unsqueeze(2)
        joined = grouped
        if features is not None:
            joined = join(grouped, features.unsqueeze(2), self.use_xyz)
        return (joined, grouped) if self.ret_grouped_xyz else joined
