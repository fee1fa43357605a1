"""Clouds of a batch at one level of the encoder, and neighborhoods of their samples."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from farpoint_ops import count_points, gather_points, group_points, knn, nearest_sample

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Count = TypeVar("Count", int, Tensor)


def sample_count(points: Count, rate: float) -> Count:
    """Number of `points` that a stage keeps: ceil(points * rate), of an int or a tensor.

    The rate is taken as the nearest fraction with a denominator up to 10 000, since torch.export
    can reason about integers of any size but not about rounding.
    """
    share = Fraction(rate).limit_denominator(10_000)
    return (points * share.numerator + share.denominator - 1) // share.denominator


@dataclass(frozen=True)
class Level:
    """B clouds of N points.

    Attributes:
        search: Coordinates for sampling and neighbors: float32 (B, N, 3), NaN in padding, without
            a gradient.
        local: Coordinates for features: (B, 3, N), zero in padding, with a gradient.
        counts: Points of the original cloud that each stands for, int32 (B, N), 0 in padding.
        lengths: Points of each cloud, int64 (B,); None when there is no padding.
    """

    search: Tensor
    local: Tensor
    counts: Tensor
    lengths: Tensor | None

    @property
    def size(self) -> int:
        return self.search.size(1)

    @classmethod
    def of(cls, xyz: Tensor, lengths: Tensor | None) -> "Level":
        """The original clouds (B, N, 3)."""
        _check(xyz, lengths)
        if xyz.dtype == torch.float64:
            xyz = xyz - xyz[:, :1].detach()
        counts = torch.ones(xyz.shape[:2], dtype=torch.int32, device=xyz.device)
        sizes = None if lengths is None else lengths.long().clamp(0, xyz.size(1))
        return cls(xyz.detach().float(), xyz.mT, counts, sizes)._with_padding()

    def pick(self, rows: Tensor, rate: float) -> "Level":
        """The level of the samples `rows` (B, M), before they are counted."""
        search = gather_points(self.search.mT, rows).mT
        sizes = None if self.lengths is None else sample_count(self.lengths, rate)
        counts = torch.zeros_like(rows, dtype=torch.int32)
        return Level(search, gather_points(self.local, rows), counts, sizes)._with_padding()

    def real(self) -> Tensor | None:
        """Mask of rows that are not padding, bool (B, N)."""
        if self.lengths is None:
            return None
        rows = torch.arange(self.size, device=self.search.device)
        return rows < self.lengths.unsqueeze(1)

    def _with_padding(self) -> "Level":
        real = self.real()
        if real is None:
            return self
        return Level(
            torch.where(real.unsqueeze(2), self.search, torch.nan),
            torch.where(real.unsqueeze(1), self.local, 0),
            torch.where(real, self.counts, 0),
            self.lengths,
        )


def _check(xyz: Tensor, lengths: Tensor | None) -> None:
    if xyz.dtype not in DTYPES:
        raise TypeError(f"xyz: expected float32, float16, bfloat16 or float64, got {xyz.dtype}")
    if xyz.dim() != 3 or xyz.size(2) != 3 or xyz.size(1) == 0:
        raise ValueError(f"xyz: expected shape (B, N, 3) with N > 0, got {tuple(xyz.shape)}")
    if lengths is None:
        return
    if lengths.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"lengths: expected int32 or int64, got {lengths.dtype}")
    if lengths.shape != xyz.shape[:1]:
        raise ValueError(
            f"lengths: expected shape ({xyz.size(0)},), one a cloud, got {tuple(lengths.shape)}"
        )
    if lengths.device != xyz.device:
        raise ValueError(f"lengths: expected a tensor on {xyz.device}, got one on {lengths.device}")


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
    """Assigns every point to its nearest sample, and finds the k nearest points of each sample.

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
