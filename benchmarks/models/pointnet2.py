"""PointNet++ (Qi, Yi, Su and Guibas, NeurIPS 2017): SSG classification.

Sizes, radii and widths are those of the paper's appendix B.1.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from farpoint_ops import ball_query, furthest_point_sample, gather_points, group_points


def shared_mlp(channels: Sequence[int], dimensions: int = 2) -> nn.Sequential:
    """Layers of size 1 over (B, C, ...), each with batch normalization and ReLU."""
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if dimensions == 1 else (nn.Conv2d, nn.BatchNorm2d)
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [conv(before, after, 1, bias=False), norm(after), nn.ReLU()]
    return nn.Sequential(*layers)


class SetAbstraction(nn.Module):
    """Samples, and for each the maximum over up to k points within the radius.

    Args:
        samples: Points that are kept.
        radius, k: Of the neighborhoods.
        widths: Of the layers, the features that come in first.
    """

    def __init__(self, samples: int, radius: float, k: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.samples, self.radius, self.k = samples, radius, k
        self.mlp = shared_mlp([3 + widths[0], *widths[1:]])

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> the samples (B, M, 3) and their features (B, C', M)."""
        rows = furthest_point_sample(xyz.detach(), self.samples)
        centers = gather_points(xyz.mT, rows).mT
        near, _ = ball_query(xyz, centers, self.radius, self.k)
        grouped = group_points(xyz.mT, near) - centers.mT[..., None]
        if features is not None:
            grouped = torch.cat([grouped, group_points(features, near)], 1)
        return centers, self.mlp(grouped).amax(3)


class PointNet2Classifier(nn.Module):
    """PointNet++ with single-scale grouping (SSG)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.near = SetAbstraction(512, 0.2, 32, (0, 64, 64, 128))
        self.far = SetAbstraction(128, 0.4, 64, (128, 128, 128, 256))
        self.all = shared_mlp((3 + 256, 256, 512, 1024), 1)
        head = (*_dense(1024, 512), *_dense(512, 256), nn.Linear(256, classes))
        self.head = nn.Sequential(*head)

    def forward(self, points: Tensor) -> Tensor:
        """(B, N, 3) with N of 512 or more -> logits (B, classes)."""
        samples, features = self.near(points, None)
        samples, features = self.far(samples, features)
        logits: Tensor = self.head(self.all(torch.cat([samples.mT, features], 1)).amax(2))
        return logits


def _dense(before: int, after: int) -> list[nn.Module]:
    return [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.5)]
