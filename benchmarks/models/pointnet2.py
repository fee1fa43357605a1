"""PointNet++ (Qi, Yi, Su and Guibas, NeurIPS 2017): SSG classification, MSG part segmentation.

Sizes, radii and widths are those of the paper's appendix B.1. With `lengths`, rows behind them are
padding: the samples and neighborhoods of a cloud are those that it has alone.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from farpoint_ops import (
    ball_query,
    furthest_point_sample,
    gather_points,
    group_points,
    interpolate,
    knn,
)

SAMPLES = (512, 128)


def shared_mlp(channels: Sequence[int], dimensions: int = 2) -> nn.Sequential:
    """Layers of size 1 over (B, C, ...), each with batch normalization and ReLU."""
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if dimensions == 1 else (nn.Conv2d, nn.BatchNorm2d)
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [conv(before, after, 1, bias=False), norm(after), nn.ReLU()]
    return nn.Sequential(*layers)


class SetAbstraction(nn.Module):
    """Samples, and for each the maximum over what is near, at one scale or several.

    Args:
        samples: Points that are kept.
        scales: Radius, neighbors and widths of each scale.
        channels: Of the features that come in.
    """

    def __init__(
        self, samples: int, scales: Sequence[tuple[float, int, Sequence[int]]], channels: int
    ) -> None:
        super().__init__()
        self.samples = samples
        self.scales = [(radius, k) for radius, k, _ in scales]
        self.mlps = nn.ModuleList(shared_mlp([3 + channels, *widths]) for *_, widths in scales)
        self.channels = sum(widths[-1] for *_, widths in scales)

    def forward(
        self, xyz: Tensor, features: Tensor | None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> the samples (B, M, 3) and their features (B, C', M)."""
        rows = furthest_point_sample(xyz.detach(), self.samples, lengths=lengths)
        centers = gather_points(xyz.mT, rows).mT
        outputs = []
        for (radius, k), mlp in zip(self.scales, self.mlps, strict=True):
            near, _ = ball_query(xyz, centers, radius, k, lengths=lengths)
            grouped = group_points(xyz.mT, near) - centers.mT[..., None]
            if features is not None:
                grouped = torch.cat([grouped, group_points(features, near)], 1)
            outputs.append(mlp(grouped).amax(3))
        return centers, torch.cat(outputs, 1)


class FeaturePropagation(nn.Module):
    """Features of samples carried back to the points that they were chosen from."""

    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.mlp = shared_mlp([channels, *widths], 1)

    def forward(
        self, xyz: Tensor, samples: Tensor, skipped: Tensor | None, features: Tensor
    ) -> Tensor:
        """(B, N, 3), (B, M, 3), (B, C, N), (B, C', M) -> (B, C'', N)."""
        near, squared = knn(samples, xyz, 3)
        weight = 1 / (squared + 1e-8)
        carried = interpolate(features, near, weight / weight.sum(2, keepdim=True))
        joined: Tensor = self.mlp(carried if skipped is None else torch.cat([skipped, carried], 1))
        return joined


class PointNet2Classifier(nn.Module):
    """PointNet++ with single-scale grouping (SSG).

    Args:
        classes: Of the answer.
        width: What the paper's widths are multiplied by.
        samples: Points that the two levels keep.
    """

    def __init__(
        self, classes: int = 40, width: float = 1.0, samples: Sequence[int] = SAMPLES
    ) -> None:
        super().__init__()

        def w(*widths: int) -> list[int]:
            return [int(width * size) for size in widths]

        self.near = SetAbstraction(samples[0], [(0.2, 32, w(64, 64, 128))], 0)
        self.far = SetAbstraction(samples[1], [(0.4, 64, w(128, 128, 256))], self.near.channels)
        self.all = shared_mlp([3 + self.far.channels, *w(256, 512, 1024)], 1)
        hidden = w(1024, 512, 256)
        self.head = nn.Sequential(
            *_dense(hidden[0], hidden[1]),
            *_dense(hidden[1], hidden[2]),
            nn.Linear(hidden[2], classes),
        )

    def forward(self, points: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N, 3) with N of samples[0] or more, lengths (B,) -> logits (B, classes)."""
        samples, features = self.near(points, None, lengths)
        samples, features = self.far(samples, features)
        logits: Tensor = self.head(self.all(torch.cat([samples.mT, features], 1)).amax(2))
        return logits


class PointNet2PartSegmenter(nn.Module):
    """PointNet++ with multi-scale grouping (MSG), for the parts of shapes of known categories.

    Args:
        parts: Of the answer.
        categories: Of shapes.
        width: What the paper's widths are multiplied by.
        samples: Points that the two levels keep.
    """

    def __init__(
        self,
        parts: int = 50,
        categories: int = 16,
        width: float = 1.0,
        samples: Sequence[int] = SAMPLES,
    ) -> None:
        super().__init__()
        self.categories = categories

        def w(*widths: int) -> list[int]:
            return [int(width * size) for size in widths]

        fine = [(0.1, 32, w(32, 32, 64)), (0.2, 64, w(64, 64, 128)), (0.4, 128, w(64, 96, 128))]
        coarse = [(0.4, 64, w(128, 128, 256)), (0.8, 128, w(128, 196, 256))]
        self.near = SetAbstraction(samples[0], fine, 0)
        self.far = SetAbstraction(samples[1], coarse, self.near.channels)
        self.all = shared_mlp([3 + self.far.channels, *w(256, 512, 1024)], 1)
        wide, middle, narrow = w(1024, 256, 128)
        self.from_all = shared_mlp([wide + self.far.channels, middle, middle], 1)
        self.from_far = FeaturePropagation(middle + self.near.channels, [middle, narrow])
        self.from_near = FeaturePropagation(narrow + 3 + categories, [narrow, narrow])
        self.head = nn.Sequential(
            shared_mlp([narrow, narrow], 1), nn.Dropout(0.5), nn.Conv1d(narrow, parts, 1)
        )

    def forward(self, points: Tensor, category: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N, 3) with N of samples[0] or more, int64 (B,), (B,) -> logits (B, parts, N)."""
        near, near_features = self.near(points, None, lengths)
        far, far_features = self.far(near, near_features)
        whole = self.all(torch.cat([far.mT, far_features], 1)).amax(2, keepdim=True)
        spread = whole.expand(-1, -1, far.size(1))
        features = self.from_all(torch.cat([spread, far_features], 1))
        features = self.from_far(near, far, near_features, features)
        one_hot = nn.functional.one_hot(category, self.categories).to(points.dtype)
        known = one_hot[:, :, None].expand(-1, -1, points.size(1))
        features = self.from_near(points, near, torch.cat([known, points.mT], 1), features)
        logits: Tensor = self.head(features)
        return logits


def _dense(before: int, after: int) -> list[nn.Module]:
    return [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.5)]
