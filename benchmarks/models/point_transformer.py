"""Point Transformer (Zhao, Jiang, Jia, Torr and Koltun, ICCV 2021), for semantic segmentation.

Vector attention over nearest neighbors in a U-net, with the authors' widths, depths and neighbors.
Clouds of a batch have as many points.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.models.pointnet2 import FeaturePropagation, shared_mlp
from farpoint_ops import furthest_point_sample, gather_points, group_points, knn

SHARED = 8
"""Channels that share an attention weight."""
STRIDE = 4


class VectorAttention(nn.Module):
    """Attention with a weight for each channel, over the nearest neighbors of each point."""

    def __init__(self, channels: int, neighbors: int) -> None:
        super().__init__()
        self.neighbors = neighbors
        self.query, self.key, self.value = (nn.Conv1d(channels, channels, 1) for _ in range(3))
        self.position = nn.Sequential(shared_mlp([3, 3]), nn.Conv2d(3, channels, 1))
        narrow = channels // SHARED
        self.weight = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            shared_mlp([channels, narrow]),
            nn.Conv2d(narrow, narrow, 1),
        )

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N) -> (B, C, N)."""
        near, _ = knn(xyz, xyz, self.neighbors)
        position = self.position(group_points(xyz.mT, near) - xyz.mT[..., None])
        keys = group_points(self.key(features), near)
        weight = self.weight(keys - self.query(features)[..., None] + position).softmax(3)
        values = group_points(self.value(features), near) + position
        shared = values.unflatten(1, (SHARED, -1)) * weight[:, None]
        attended: Tensor = shared.sum(4).flatten(1, 2)
        return attended


class TransformerBlock(nn.Module):
    """Attention between two linear layers, around which the features pass."""

    def __init__(self, channels: int, neighbors: int) -> None:
        super().__init__()
        self.enter = shared_mlp([channels, channels], 1)
        self.attention = VectorAttention(channels, neighbors)
        self.leave = nn.Sequential(
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 1, bias=False),
            nn.BatchNorm1d(channels),
        )

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N) -> (B, C, N)."""
        return torch.relu(features + self.leave(self.attention(xyz, self.enter(features))))


class TransitionDown(nn.Module):
    """A quarter of the points, each with the maximum over its neighbors."""

    def __init__(self, before: int, after: int, neighbors: int) -> None:
        super().__init__()
        self.neighbors = neighbors
        self.mlp = shared_mlp([3 + before, after])

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> (B, N // 4, 3), (B, C', N // 4)."""
        rows = furthest_point_sample(xyz.detach(), xyz.size(1) // STRIDE)
        samples = gather_points(xyz.mT, rows).mT
        near, _ = knn(xyz, samples, self.neighbors)
        relative = group_points(xyz.mT, near) - samples.mT[..., None]
        grouped = torch.cat([relative, group_points(features, near)], 1)
        return samples, self.mlp(grouped).amax(3)


class _Level(nn.ModuleList):
    """Blocks on the same points."""

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N) -> (B, C, N)."""
        for block in self:
            features = block(xyz, features)
        return features


class PointTransformer(nn.Module):
    """The segmentation network of the paper.

    Args:
        classes: Of the answer.
        features: Channels that come with each point.
        widths: Channels of each level.
        depths: Blocks of each level on the way down; there is one on the way up.
        neighbors: Of each level.
    """

    def __init__(
        self,
        classes: int = 13,
        features: int = 6,
        widths: Sequence[int] = (32, 64, 128, 256, 512),
        depths: Sequence[int] = (2, 3, 4, 6, 3),
        neighbors: Sequence[int] = (8, 16, 16, 16, 16),
    ) -> None:
        super().__init__()
        self.enter = shared_mlp([3 + features, widths[0]], 1)
        levels = [*zip(widths, depths, neighbors, strict=True)]
        self.down = nn.ModuleList(
            TransitionDown(before, after, k)
            for before, after, k in zip(widths, widths[1:], neighbors[1:], strict=False)
        )
        self.blocks = nn.ModuleList(
            _Level(TransformerBlock(width, k) for _ in range(depth)) for width, depth, k in levels
        )
        self.bottom = shared_mlp([2 * widths[-1], widths[-1]], 1)
        self.lateral = nn.ModuleList(shared_mlp([width, width], 1) for width in widths[:-1])
        self.up = nn.ModuleList(
            shared_mlp([deeper, width], 1) for width, deeper in pairwise(widths)
        )
        self.carry = nn.ModuleList(FeaturePropagation(width, []) for width in widths[:-1])
        self.mix = nn.ModuleList(TransformerBlock(width, k) for width, _, k in levels)
        self.head = nn.Sequential(
            shared_mlp([widths[0], widths[0]], 1), nn.Conv1d(widths[0], classes, 1)
        )

    def forward(self, points: Tensor, features: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N) -> logits (B, classes, N); the last level needs its neighbors."""
        clouds = [points]
        kept = [self.blocks[0](points, self.enter(torch.cat([points.mT, features], 1)))]
        for level, down in enumerate(self.down, 1):
            samples, found = down(clouds[-1], kept[-1])
            clouds.append(samples)
            kept.append(self.blocks[level](samples, found))
        last = kept[-1]
        mean = last.mean(2, keepdim=True).expand(-1, -1, last.size(2))
        x = self.mix[-1](clouds[-1], self.bottom(torch.cat([last, mean], 1)))
        for level in reversed(range(len(self.down))):
            carried = self.carry[level](clouds[level], clouds[level + 1], None, self.up[level](x))
            x = self.mix[level](clouds[level], self.lateral[level](kept[level]) + carried)
        logits: Tensor = self.head(x)
        return logits
