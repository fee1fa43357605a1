"""Segmenters: scores of each point."""

import torch
from tests.models.zoo.layers import FeaturePropagation, SetAbstraction, shared_mlp
from torch import Tensor, nn

from farpoint_ops import group_points, knn
from farpoint_ops.compat import pointops

CLASSES = 5


class PartSegmenter(nn.Module):
    """PointNet++ with multi-scale grouping, a color for each point and a category for the cloud."""

    def __init__(self) -> None:
        super().__init__()
        self.down = SetAbstraction(32, [(0.2, 8), (0.5, 8)], 6, 16, 16)
        self.category = nn.Embedding(4, 16)
        self.up = FeaturePropagation(6 + 32, 32)
        self.head = nn.Conv1d(32 + 16, CLASSES, 1)

    def forward(self, xyz: Tensor, color: Tensor, category: Tensor) -> Tensor:
        features = torch.cat([xyz.mT, color], 1)
        found = self.up(xyz, features, *self.down(xyz, features))
        whole = self.category(category)[:, :, None].expand(-1, -1, xyz.size(1))
        return self.head(torch.cat([found, whole], 1))


class AttentivePooling(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.score, self.mlp = nn.Linear(before, before, bias=False), shared_mlp(before, after)

    def forward(self, grouped: Tensor) -> Tensor:
        scores = self.score(grouped.permute(0, 2, 3, 1)).softmax(2).permute(0, 3, 1, 2)
        return self.mlp((grouped * scores).sum(3, keepdim=True))[..., 0]


class RandLANet(nn.Module):
    """Hu, Yang, Xie, Rosa, Guo, Wang, Trigoni and Markham, CVPR 2020.

    Points come in random order: a quarter of them are its first rows, as in the published code.
    """

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, 8 * by), nn.LeakyReLU(0.2))
        self.position, self.pool = shared_mlp(10, 8 * by), AttentivePooling(16 * by, 16 * by)
        self.head = nn.Conv1d((8 + 16) * by, CLASSES, 1)

    def forward(self, xyz: Tensor) -> Tensor:
        features = self.embed(xyz).mT
        near, squares = knn(xyz, xyz, 8)
        center, grouped = xyz.mT[..., None].expand(-1, -1, -1, 8), group_points(xyz.mT, near)
        distance = (squares + 1e-9).sqrt()[:, None]
        position = self.position(torch.cat([distance, center - grouped, center, grouped], 1))
        local = self.pool(torch.cat([position, group_points(features, near)], 1))
        some = xyz.size(1) // 4
        sampled = group_points(local, near[:, :some]).amax(3)
        nearest, _ = knn(xyz[:, :some], xyz, 1)
        up = group_points(sampled, nearest)[..., 0]
        return self.head(torch.cat([features, up], 1))


class VectorAttention(nn.Module):
    """Attention to the nearest points of the same cloud, with a weight for each channel."""

    def __init__(self, width: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.qkv = nn.Linear(width, 3 * width)
        self.position = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, width))
        self.weight = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, xyz: Tensor, features: Tensor, ends: Tensor) -> Tensor:
        query, key, value = self.qkv(features).chunk(3, 1)
        rows = pointops.knn_query(self.k, xyz, ends, xyz, ends)[0].long()
        position = self.position(xyz[rows] - xyz[:, None])
        weight = self.weight(key[rows] - query[:, None] + position).softmax(1)
        return features + ((value[rows] + position) * weight).sum(1)


class PointTransformer(nn.Module):
    """Zhao, Jiang, Jia, Torr and Koltun, ICCV 2021, on clouds that lie end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.near, self.far = VectorAttention(16, 8), VectorAttention(16, 4)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, xyz: Tensor, color: Tensor, ends: Tensor) -> Tensor:
        features = self.near(xyz, self.embed(torch.cat([xyz, color], 1)), ends)
        sizes = torch.diff(ends, prepend=ends.new_zeros(1))
        few = ((sizes + 3) // 4).cumsum(0).int()
        rows = pointops.farthest_point_sampling(xyz, ends, few).long()
        coarse = self.far(xyz[rows], features[rows], few)
        up = pointops.interpolation2(xyz[rows], xyz, coarse, few, ends, 3)
        return self.head(torch.cat([features, up], 1))
