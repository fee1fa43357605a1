"""Index computations of a stage: points that collapse into each sample, and its neighborhood.

Nothing here has a gradient. A row of coordinates that is NaN is padding: it is in no collapsed set,
and it is a neighbor only where nothing else is left.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from farpoint_ops import count_points, group_points, knn, nearest_sample


class Neighborhood(NamedTuple):
    """M samples among N points, and K neighbors of each.

    Attributes:
        rows: Points (B, M, K), int32, nearest first.
        members: Which of them collapse into the sample, bool (B, 1, M, K).
        collapsed: Size of each collapsed set, int32 (B, M).
        counts: Points of the original cloud in it, int32 (B, M).
        mean_distance: From the sample to its collapsed set, float32 (B, M).
        real: Which pairs are not padding, bool (B, 1, M, K); None when all are.
    """

    rows: Tensor
    members: Tensor
    collapsed: Tensor
    counts: Tensor
    mean_distance: Tensor
    real: Tensor | None


@torch.no_grad()
def collapse(
    points: Tensor, samples: Tensor, weights: Tensor, k: int, *, padded: bool
) -> Neighborhood:
    """Assign every point to its nearest sample, and find the k points nearest to each sample.

    Args:
        points: float32 (B, N, 3), NaN where there is none.
        samples: float32 (B, M, 3), likewise.
        weights: How many points of the original cloud each stands for, int32 (B, N), 0 in padding.
        k: Neighbors of a sample, at most N.
        padded: Whether there may be NaN.
    """
    m = samples.size(1)
    assignment, squared = nearest_sample(points, samples)
    collapsed = count_points(assignment, m)
    rows, _ = knn(points, samples, k)
    owner = group_points(assignment.unsqueeze(1), rows)
    members = owner == torch.arange(m, dtype=owner.dtype, device=owner.device)[:, None]

    # -1 marks padding; what is added to sample 0 for it is zero.
    index = assignment.clamp(min=0).long()
    distance = torch.where(assignment < 0, 0, squared).sqrt()
    total = distance.new_zeros(samples.shape[:2]).scatter_add(1, index, distance)
    counts = weights.new_zeros(samples.shape[:2]).scatter_add(1, index, weights)
    mean_distance = total / collapsed.clamp(min=1)
    real = (owner >= 0) & samples.isfinite().all(-1)[:, None, :, None] if padded else None
    return Neighborhood(rows, members, collapsed, counts, mean_distance, real)
