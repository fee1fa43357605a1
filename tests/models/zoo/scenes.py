"""Models of scenes: segmenters, detectors, and clouds that have padding or a partner.

Factors are of channels and samples.
"""

import torch
from tests.models.zoo.classifiers import FeaturePropagation, SetAbstraction, sample, shared_mlp
from torch import Tensor, nn

from farpoint_ops import ball_query, farthest_point_sample, gather_points, group_points, knn
from farpoint_ops.compat import pointops

CLASSES, BOX = 5, 7


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


class MaskedPointNet(nn.Module):
    """PointNet on padded clouds: padding gets the logit -inf; and half of the points as samples.

    Qi, Su, Mo and Guibas, CVPR 2017, without its transformers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.point, self.score = shared_mlp(3, 32, dimensions=1), nn.Conv1d(64, 1, 1)

    def forward(self, xyz: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        real = torch.arange(xyz.size(1), device=xyz.device) < lengths[:, None]
        features = self.point(xyz.mT).masked_fill(~real[:, None], -torch.inf)
        whole = features.amax(2)
        both = torch.cat([features.clamp(min=0), whole[:, :, None].expand_as(features)], 1)
        scores = self.score(both)[:, 0].masked_fill(~real, -torch.inf)
        # A row that is not finite is sampled after all others.
        rows = farthest_point_sample(
            xyz.masked_fill(~real[..., None], torch.nan), (xyz.size(1) + 1) // 2
        )
        return scores, whole, rows, (lengths + 1) // 2


class Registration(nn.Module):
    """Rotation and translation from one cloud to another of another size, by soft matches.

    Wang and Solomon, "Deep Closest Point", ICCV 2019.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = shared_mlp(3, 32, dimensions=1)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        middle, aim = source.mean(1, keepdim=True), target.mean(1, keepdim=True)
        scale = (target - aim).square().mean((1, 2), keepdim=True).sqrt()
        a, b = (source - middle) / scale, (target - aim) / scale
        matched = (self.embed(a.mT).mT @ self.embed(b.mT) / 32).softmax(2) @ b
        # Biased to no rotation, so that the singular values differ.
        bias = torch.diag(torch.tensor([3.0, 2.0, 1.0]))
        u, _, vh = torch.linalg.svd(a.mT @ matched / source.size(1) + bias)
        sign = torch.linalg.det(vh.mT @ u.mT)
        flip = torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], 1)
        rotation = vh.mT @ (flip[..., None] * u.mT)
        shift = aim + scale * matched.mean(1, keepdim=True) - middle @ rotation.mT
        return rotation, shift[:, 0]
