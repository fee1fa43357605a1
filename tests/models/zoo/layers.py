"""Layers that many architectures of the field share, small."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from farpoint_ops import (
    ball_query,
    farthest_point_sample,
    gather_points,
    group_points,
    interpolate,
    knn,
)


def shared_mlp(*widths: int, dimensions: int = 2) -> nn.Sequential:
    """Layers of size 1 over (B, C, ...), each with batch normalization and ReLU."""
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if dimensions == 1 else (nn.Conv2d, nn.BatchNorm2d)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [conv(before, after, 1, bias=False), norm(after), nn.ReLU()]
    return nn.Sequential(*layers)


def sample(xyz: Tensor, count: int) -> Tensor:
    """The farthest points (B, M, 3) of clouds (B, N, 3)."""
    return gather_points(xyz.mT, farthest_point_sample(xyz, count)).mT


def neighborhoods(xyz: Tensor, features: Tensor, centers: Tensor, k: int) -> Tensor:
    """Relative coordinates and features (B, 3 + C, M, K) of the nearest points of each center."""
    rows, _ = knn(xyz, centers, k)
    offsets = group_points(xyz.mT, rows) - centers.mT[..., None]
    return torch.cat([offsets, group_points(features, rows)], 1)


class SetAbstraction(nn.Module):
    """Samples, and for each the maximum over its balls of one radius or several.

    Qi, Yi, Su and Guibas, "PointNet++", NeurIPS 2017.
    """

    def __init__(self, samples: int, scales: Sequence[tuple[float, int]], *widths: int) -> None:
        super().__init__()
        self.samples, self.scales = samples, scales
        self.mlps = nn.ModuleList(shared_mlp(3 + widths[0], *widths[1:]) for _ in scales)

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> (B, M, 3), (B, C', M)."""
        centers, found = sample(xyz, self.samples), []
        for (radius, k), mlp in zip(self.scales, self.mlps, strict=True):
            rows, _ = ball_query(xyz, centers, radius, k)
            offsets = group_points(xyz.mT, rows) - centers.mT[..., None]
            found.append(mlp(torch.cat([offsets, group_points(features, rows)], 1)).amax(3))
        return centers, torch.cat(found, 1)


class FeaturePropagation(nn.Module):
    """Features of samples, interpolated at all points by the three nearest."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.mlp = shared_mlp(*widths, dimensions=1)

    def forward(self, xyz: Tensor, features: Tensor, centers: Tensor, coarse: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N), (B, M, 3), (B, C', M) -> (B, C'', N)."""
        rows, squares = knn(centers, xyz, 3)
        weight = 1 / (squares + 1e-8)
        fine = interpolate(coarse, rows, weight / weight.sum(2, keepdim=True))
        out: Tensor = self.mlp(torch.cat([features, fine], 1))
        return out
