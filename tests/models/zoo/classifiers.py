"""Classifiers: logits of each cloud (B, N, 3), and the layers that others share.

Factors are of channels and samples.
"""

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

CLASSES = 8


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


class PointNet2(nn.Module):
    """PointNet++ with single-scale grouping."""

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.near = SetAbstraction(32 * by, [(0.3, 8)], 3, 16 * by, 16 * by, 32 * by)
        self.far = SetAbstraction(8 * by, [(0.6, 8)], 32 * by, 32 * by, 48 * by)
        self.all = shared_mlp(3 + 48 * by, 64 * by, dimensions=1)
        self.head = nn.Sequential(
            nn.Linear(64 * by, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, CLASSES)
        )

    def forward(self, xyz: Tensor) -> Tensor:
        samples, features = self.far(*self.near(xyz, xyz.mT))
        pooled = self.all(torch.cat([samples.mT, features], 1)).amax(2)
        return self.head(pooled).log_softmax(1)


class InvertedResidual(nn.Module):
    """A block of PointNeXt: neighbors are pooled, then channels expand and shrink."""

    def __init__(self, width: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.local = nn.Sequential(nn.Conv2d(3 + width, width, 1), nn.BatchNorm2d(width))
        self.wide = nn.Sequential(
            *shared_mlp(width, 4 * width, dimensions=1),
            nn.Conv1d(4 * width, width, 1),
            nn.BatchNorm1d(width),
        )

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        near = self.local(neighborhoods(xyz, features, xyz, self.k)).amax(3)
        return torch.relu(features + self.wide(near))


class PointNeXt(nn.Module):
    """Qian, Li, Peng, Mai, Hammoud, Elhoseiny and Ghanem, NeurIPS 2022."""

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv1d(4, 16 * by, 1)
        self.down = SetAbstraction(32 * by, [(0.4, 8)], 16 * by, 32 * by)
        self.block = InvertedResidual(32 * by, 8)
        self.head = nn.Linear(32 * by, CLASSES)

    def forward(self, xyz: Tensor) -> Tensor:
        height = xyz[:, :, 2:] - xyz[:, :, 2:].amin(1, keepdim=True)
        samples, features = self.down(xyz, self.stem(torch.cat([xyz, height], 2).mT))
        return self.head(self.block(samples, features).amax(2))


class PointMLP(nn.Module):
    """Ma, Qin, You, Ran and Fu, ICLR 2022.

    The geometric affine takes the deviation of each cloud; the published one takes that of the
    batch, so that clouds change each other's answers.
    """

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.samples, width = 32 * by, 32 * by
        self.embed = shared_mlp(3, 16 * by, dimensions=1)
        self.alpha = nn.Parameter(torch.rand(16 * by, 1, 1))
        self.beta = nn.Parameter(torch.rand(16 * by, 1, 1))
        self.before, self.after = shared_mlp(width, width), shared_mlp(width, width, dimensions=1)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, xyz: Tensor) -> Tensor:
        features = self.embed(xyz.mT)
        rows = farthest_point_sample(xyz, self.samples)
        near, _ = knn(xyz, gather_points(xyz.mT, rows).mT, 8)
        anchor = gather_points(features, rows)[..., None]
        offsets = group_points(features, near) - anchor
        deviation = offsets.flatten(1).std(1)[:, None, None, None]
        grouped = self.alpha * offsets / (deviation + 1e-5) + self.beta
        grouped = torch.cat([grouped, anchor.expand_as(grouped)], 1)
        return self.head(self.after(self.before(grouped).amax(3)).amax(2))


class EdgeConv(nn.Module):
    """Features of the nearest points in the space of features, relative to the point."""

    def __init__(self, before: int, after: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(
            nn.Conv2d(2 * before, after, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)
        )

    def forward(self, x: Tensor) -> Tensor:
        squares = (x * x).sum(1)
        distances = squares[:, :, None] + squares[:, None] - 2 * x.mT @ x
        near = distances.topk(self.k, largest=False)[1]
        grouped, center = group_points(x, near), x[..., None]
        edges = torch.cat([grouped - center, center.expand_as(grouped)], 1)
        return self.mlp(edges).max(-1)[0]


class DGCNN(nn.Module):
    """Wang, Sun, Liu, Sarma, Bronstein and Solomon, ACM TOG 2019."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = nn.ModuleList([EdgeConv(3, 16, 8), EdgeConv(16, 16, 8), EdgeConv(16, 32, 8)])
        self.all = shared_mlp(64, 64, dimensions=1)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, xyz: Tensor) -> Tensor:
        x, found = xyz.mT, []
        for edge in self.edges:
            x = edge(x)
            found.append(x)
        x = self.all(torch.cat(found, 1))
        return self.head(torch.cat([x.amax(2), x.mean(2)], 1))


class PointConv(nn.Module):
    """Wu, Qi and Fuxin, CVPR 2019: weights from offsets, scaled by the inverse of the density."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = shared_mlp(3, 8, 8)
        self.scale = nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Conv2d(8, 1, 1), nn.Sigmoid())
        self.features = shared_mlp(6, 16)
        self.linear = nn.Linear(16 * 8, 32)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, CLASSES))

    def forward(self, xyz: Tensor) -> Tensor:
        centers = sample(xyz, 32)
        density = torch.exp(-torch.cdist(xyz, xyz).square() / 0.02).mean(2)
        rows, _ = knn(xyz, centers, 8)
        inverse = group_points((1 / density)[:, None], rows)
        grouped = neighborhoods(xyz, xyz.mT, centers, 8)
        scale = self.scale(inverse / inverse.amax(3, keepdim=True))
        weights = self.weights(grouped[:, :3])
        found = self.features(grouped) * scale  # (B, C, M, K)
        mixed = found.permute(0, 2, 1, 3) @ weights.permute(0, 2, 3, 1)
        return self.head(self.linear(mixed.flatten(2)).amax(1))
