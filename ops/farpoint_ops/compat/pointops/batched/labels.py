"""Label statistics of neighborhoods of the batched ``pointops``: integer counts, no gradient."""

import torch
from torch import Tensor

from farpoint_ops import neighbors
from farpoint_ops.gather import group_points


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
