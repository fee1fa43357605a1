"""Layers of a stage: embeddings and attention, channel-first, every convolution of size 1.

`real` is a bool mask of the positions that are not padding, broadcastable with one channel; None
when all are real. `members` masks the neighbors that an embedding may look at.
"""

import math

import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.level import Neighborhood
from farpoint_ops import gather_points, group_points


class GroupNorm(nn.GroupNorm):
    """GroupNorm with statistics without padding, so that a cloud does not depend on its batch."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """(B, C, ...), mask (B, 1, ...) -> (B, C, ...)."""
        if real is None:
            return super().forward(x)
        wide = x.float() if x.dtype.itemsize < 4 else x
        grouped = wide.reshape(x.size(0), self.num_groups, -1, *x.shape[2:])
        mask = real.unsqueeze(1)
        rest = tuple(range(2, grouped.dim()))
        size = (mask.sum(rest, keepdim=True) * grouped.size(2)).clamp(min=1)
        mean = torch.where(mask, grouped, 0).sum(rest, keepdim=True) / size
        centered = torch.where(mask, grouped - mean, 0)
        variance = centered.square().sum(rest, keepdim=True) / size
        normal = (centered * (variance + self.eps).rsqrt()).flatten(1, 2)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        scaled: Tensor = normal * self.weight.view(shape) + self.bias.view(shape)
        return scaled.to(x.dtype)


class PointwiseMLP(nn.Module):
    """Convolution, GroupNorm, ReLU, convolution, all of size 1, over 1 or 2 dimensions."""

    def __init__(self, inputs: int, hidden: int, outputs: int, groups: int, dimensions: int = 2):
        super().__init__()
        conv = nn.Conv2d if dimensions == 2 else nn.Conv1d
        self.widen = conv(inputs, hidden, 1)
        self.norm = GroupNorm(groups, hidden)
        self.project = conv(hidden, outputs, 1)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        hidden = self.norm(self.widen(x.to(self.widen.weight.dtype)), real)
        projected: Tensor = self.project(hidden.relu_())
        return projected


def masked_softmax(scores: Tensor, members: Tensor) -> Tensor:
    """Softmax over the last dimension, restricted to `members`; it writes to the scores.

    The lowest finite number, not -inf, stands for the others: a sample that coincides with an
    earlier one has no members, and its weights come out equal rather than NaN.
    """
    return scores.masked_fill_(~members, torch.finfo(scores.dtype).min).softmax(-1)


class NeighborhoodAttention(nn.Module):
    """Features of a sample's collapsed set: the ancestor embedding.

    Vector attention of Zhao, Jiang, Jia, Torr and Koltun, "Point Transformer", ICCV 2021.
    """

    def __init__(self, channels: int, hidden: int, groups: int):
        super().__init__()
        self.query = nn.Conv1d(channels, hidden, 1)
        self.key = nn.Conv1d(channels, hidden, 1)
        self.value = nn.Conv1d(channels, hidden, 1)
        self.position = PointwiseMLP(3, hidden, hidden, groups)
        self.score = PointwiseMLP(hidden, hidden, hidden, groups)
        self.project = nn.Conv1d(hidden, channels, 1)

    def forward(
        self,
        sampled: Tensor,
        keys: Tensor,
        values: Tensor,
        offsets: Tensor,
        members: Tensor,
        real: Tensor | None,
    ) -> Tensor:
        """(B, C, M), twice (B, hidden, M, K), (B, 3, M, K) -> (B, C, M)."""
        position = self.position(-offsets, real)
        query = self.query(sampled).unsqueeze(-1)
        scores = self.score(query - keys + position, real) / math.sqrt(keys.size(1))
        weights = masked_softmax(scores, members)
        mixed = (weights.to(values.dtype) * (values + position)).sum(-1)
        projected: Tensor = self.project(mixed)
        return projected + sampled


class PositionEmbedding(nn.Module):
    """Directions and distances of the collapsed set from its sample."""

    def __init__(self, channels: int, hidden: int, groups: int):
        super().__init__()
        self.embed = PointwiseMLP(4, hidden, channels, groups)
        self.score = PointwiseMLP(channels, hidden, channels, groups)

    def forward(self, offsets: Tensor, members: Tensor, real: Tensor | None) -> Tensor:
        """Offsets to the neighbors (B, 3, M, K) -> (B, C, M)."""
        embedded: Tensor = self.embed(polar(offsets), real)
        weights = masked_softmax(self.score(embedded, real), members)
        return (embedded * weights.to(embedded.dtype)).sum(-1)


def polar(offsets: Tensor) -> Tensor:
    """Unit direction and length of offsets (B, 3, ...): (B, 4, ...), zero where they are zero.

    A sample is its own neighbor, so a zero offset is the rule. There the gradient is zero too;
    dividing by a small number instead would let 1e12 into it.
    """
    squared = offsets.square().sum(1, keepdim=True)
    zero = squared == 0
    length = torch.where(zero, 1, squared).sqrt()
    return torch.cat([offsets / length, torch.where(zero, 0, length)], 1)


class DensityStage(nn.Module):
    """Features of samples from those of the points that collapse into them.

    He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022,
    section 3.2: ancestor, local position and density embeddings, joined and added to a residual.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        channels, hidden, groups = config.channels, config.hidden, config.groups
        self.mix = nn.Conv1d(channels, channels, 1)
        self.ancestor = NeighborhoodAttention(channels, hidden, groups)
        self.position = PositionEmbedding(channels, hidden, groups)
        self.density = PointwiseMLP(1, hidden, channels, groups, dimensions=1)
        self.join = nn.Conv1d(3 * channels, channels, 1)

    def forward(
        self, features: Tensor, offsets: Tensor, picks: Tensor, hood: Neighborhood
    ) -> Tensor:
        """Features of the samples.

        Args:
            features: (B, C, N).
            offsets: From the samples to their neighbors (B, 3, M, K), finite even in padding.
            picks: Points that are the samples, int32 (B, M).
            hood: Their neighborhood.

        Returns:
            (B, C, M), zero in padding.
        """
        mixed = self.mix(features)
        keys = group_points(self.ancestor.key(mixed), hood.rows)
        values = group_points(self.ancestor.value(mixed), hood.rows)
        sampled = gather_points(mixed, picks)
        embeddings = [
            self.ancestor(sampled, keys, values, offsets, hood.members, hood.real),
            self.position(offsets, hood.members, hood.real),
            self.density(hood.collapsed.unsqueeze(1).to(offsets.dtype), self._real_samples(hood)),
        ]
        joined: Tensor = self.join(torch.cat(embeddings, 1))
        out = joined + gather_points(features, picks)
        real = self._real_samples(hood)
        return out if real is None else torch.where(real, out, 0)

    @staticmethod
    def _real_samples(hood: Neighborhood) -> Tensor | None:
        """(B, 1, M). The nearest neighbor of a real sample is real."""
        return None if hood.real is None else hood.real[..., 0]
