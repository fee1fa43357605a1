"""Clouds of which each has padding, a partner or a shape to be made."""

import torch
from tests.models.zoo.layers import shared_mlp
from torch import Tensor, nn

from farpoint_ops import farthest_point_sample


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


class Completion(nn.Module):
    """Yuan, Khot, Held, Mertz and Hebert, "PCN", 3DV 2018: a code, folded into a denser cloud."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = shared_mlp(3, 32, dimensions=1), shared_mlp(64, 48, dimensions=1)
        self.coarse = nn.Linear(48, 3 * 16)
        side = torch.linspace(-0.05, 0.05, 2)
        self.register_buffer("grid", torch.cartesian_prod(side, side).mT.contiguous())
        self.fold = nn.Sequential(nn.Conv1d(48 + 5, 32, 1), nn.ReLU(), nn.Conv1d(32, 3, 1))

    def forward(self, xyz: Tensor) -> tuple[Tensor, Tensor]:
        features = self.first(xyz.mT)
        both = torch.cat([features, features.amax(2, keepdim=True).expand_as(features)], 1)
        code = self.second(both).amax(2)
        coarse = self.coarse(code).unflatten(1, (16, 3))
        clouds, points = xyz.size(0), 16 * 4
        center = coarse.repeat_interleave(4, 1).mT
        grid = self.grid.repeat(1, 16).expand(clouds, -1, -1)
        made = self.fold(torch.cat([code[..., None].expand(-1, -1, points), grid, center], 1))
        return coarse, (center + made).mT
