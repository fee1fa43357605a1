"""Detectors: points with features in one tensor (B, N, 3 + C), boxes or maps of each cloud."""

import torch
from tests.models.zoo.layers import SetAbstraction, sample, shared_mlp
from torch import Tensor, nn

from farpoint_ops import ball_query, farthest_point_sample, gather_points, group_points

BOX = 7


class VoteNet(nn.Module):
    """Qi, Litany, He and Guibas, ICCV 2019: samples vote for centers, around which boxes are."""

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.backbone = SetAbstraction(48 * by, [(0.4, 8)], 1, 16 * by, 24)
        self.vote = nn.Sequential(
            nn.Conv1d(24, 24 * by, 1), nn.ReLU(), nn.Conv1d(24 * by, 3 + 24, 1)
        )
        self.near = shared_mlp(3 + 24, 24 * by)
        self.box = nn.Conv1d(24 * by, BOX, 1)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        xyz, features = points[..., :3].contiguous(), points[..., 3:].mT
        seeds, features = self.backbone(xyz, features)
        moved = self.vote(features)
        votes = seeds + moved[:, :3].mT
        features = features + moved[:, 3:]
        centers = sample(votes, 12)
        rows, _ = ball_query(votes, centers, 0.3, 8)
        offsets = group_points(votes.mT, rows) - centers.mT[..., None]
        grouped = torch.cat([offsets, group_points(features, rows)], 1)
        boxes = self.box(self.near(grouped).amax(3)).mT
        return torch.cat([centers + boxes[..., :3], boxes[..., 3:]], 2), features.amax(2)


class PointPillars(nn.Module):
    """Lang, Vora, Caesar, Zhou, Yang and Beijbom, CVPR 2019: pillars of a grid become an image."""

    def __init__(self, by: int = 1, cells: int = 16) -> None:
        super().__init__()
        self.cells, self.width = cells, 16 * by
        self.embed = shared_mlp(4 + 2, self.width, dimensions=1)
        layers = nn.Conv2d(self.width, self.width, 3, 2, 1), nn.BatchNorm2d(self.width), nn.ReLU()
        self.image = nn.Sequential(*layers, nn.Conv2d(self.width, BOX + 1, 1))

    def forward(self, points: Tensor) -> Tensor:
        place = points[..., :2].clamp(0, 0.999) * self.cells
        cell = place.floor()
        features = self.embed(torch.cat([points, place - cell], 2).mT)
        row = (cell[..., 1] * self.cells + cell[..., 0]).long()
        canvas = features.new_zeros(points.size(0), self.width, self.cells * self.cells)
        # Features are 0 or more, and an empty pillar is 0.
        canvas = canvas.scatter_reduce(2, row[:, None].expand(-1, self.width, -1), features, "amax")
        return self.image(canvas.unflatten(2, (self.cells, self.cells)))


class ThreeDETR(nn.Module):
    """Misra, Girdhar and Joulin, ICCV 2021: a transformer, whose queries are sampled points."""

    def __init__(self, by: int = 1) -> None:
        super().__init__()
        self.tokens = SetAbstraction(32 * by, [(0.4, 8)], 1, 32 * by)
        self.encoder = nn.TransformerEncoderLayer(32 * by, 4, 64 * by, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(32 * by, 4, 64 * by, batch_first=True)
        self.register_buffer("frequencies", torch.randn(3, 16 * by))
        self.box = nn.Linear(32 * by, BOX)

    def forward(self, points: Tensor) -> Tensor:
        xyz = points[..., :3].contiguous()
        tokens, features = self.tokens(xyz, points[..., 3:].mT)
        memory = self.encoder(features.mT + self._position(tokens))
        queries = gather_points(tokens.mT, farthest_point_sample(tokens, 8)).mT
        found = self.box(self.decoder(self._position(queries), memory))
        return torch.cat([queries + found[..., :3], found[..., 3:]], 2)

    def _position(self, xyz: Tensor) -> Tensor:
        angles = xyz @ self.frequencies
        return torch.cat([angles.sin(), angles.cos()], 2)
