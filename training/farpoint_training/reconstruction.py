"""Reconstruction of clouds from features: the decoder, and its error."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_models.config import EncoderConfig
from farpoint_models.encoder import EncodedStage
from farpoint_ops import group_points, knn, nearest_sample

SLOTS_MAX = 32
HIDDEN = 96


class Rebuilt(NamedTuple):
    """Offsets from each sample in units of its stage's scale, (B, M, U, 3), and the logarithm of
    its count, (B, M)."""

    offsets: Tensor
    log_count: Tensor


class StageDecoder(nn.Module):
    """Offsets and count from a feature.

    Args:
        channels: Of the feature.
        points: How many a sample stands for on average. There are slots for twice as many, up to
            `SLOTS_MAX`; where more would be needed, only a `share` of the cloud is rebuilt.
    """

    def __init__(self, channels: int, points: float):
        super().__init__()
        self.slots = min(SLOTS_MAX, math.ceil(2 * points))
        self.share = min(1.0, SLOTS_MAX / (2 * points))
        self.prior = math.log(points)
        self.hidden = nn.Sequential(nn.Linear(channels, HIDDEN), nn.ReLU())
        self.refine = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.out = nn.Linear(HIDDEN, 3 * self.slots + 1)

    def forward(self, features: Tensor) -> Rebuilt:
        """(B, C, M) -> offsets and counts."""
        values = self.out(self.refine(self.hidden(features.mT)))
        return Rebuilt(values[..., 1:].unflatten(-1, (-1, 3)), values[..., 0] + self.prior)


class Decoder(nn.Module):
    """One `StageDecoder` for each stage of an encoder.

    Args:
        config: Of the encoder.
        blind: Feed zeros instead of features. What is learned then is the best guess that is the
            same for every sample: the baseline that features have to beat.
    """

    def __init__(self, config: EncoderConfig, *, blind: bool = False):
        super().__init__()
        self.blind = blind
        kept = [math.prod(config.rates[: i + 1]) for i in range(len(config.rates))]
        self.stages = nn.ModuleList(StageDecoder(config.channels, 1 / rate) for rate in kept)

    def forward(self, encoded: tuple[EncodedStage, ...]) -> list[Rebuilt]:
        features = [stage.features for stage in encoded]
        if self.blind:
            features = [torch.zeros_like(f) for f in features]
        return [decode(f) for decode, f in zip(self.stages, features, strict=True)]


# Neighbors among which the members of a collapsed set are looked for, for each slot.
REACH = 2
COUNT_WEIGHT = 0.5


class Target(NamedTuple):
    """Collapsed sets in the original cloud, or in the share of it that a decoder rebuilds.

    Attributes:
        offsets: From each sample to nearby points, (B, M, K, 3), in units of the cloud's mean
            distance from a point to its sample.
        members: Which of those points collapse into the sample, bool (B, M, K).
        share: How many of a sample's points are among them on average.
        counts: Points of the whole cloud that each sample stands for, (B, M).
    """

    offsets: Tensor
    members: Tensor
    share: float
    counts: Tensor


class Error(NamedTuple):
    """Chamfer distance in units of the scale, and the mean error of the count's logarithm."""

    chamfer: Tensor
    log_count: Tensor


@torch.no_grad()
def target(xyz: Tensor, stage: EncodedStage, decoder: StageDecoder) -> Target:
    """The target of a decoder, from clouds (B, N, 3) whose rows are in random order."""
    assignment, squared = nearest_sample(xyz, stage.points)
    scale = squared.sqrt().mean(1).clamp(min=1e-6)
    part = xyz[:, : math.ceil(decoder.share * xyz.size(1))]
    rows, _ = knn(part, stage.points, min(REACH * decoder.slots, part.size(1)))
    near = group_points(part.mT, rows).movedim(1, -1) - stage.points.unsqueeze(2)
    owner = group_points(assignment.unsqueeze(1), rows).squeeze(1)
    own = torch.arange(owner.size(1), device=owner.device)[:, None]
    offsets = near / scale[:, None, None, None]
    return Target(offsets, owner == own, decoder.share, stage.counts)


def error(rebuilt: Rebuilt, true: Target, *, own_count: bool = False) -> Error:
    """Mean over all samples that stand for any points.

    A decoder has more slots than points to place; the first of them, as many as the count asks
    for, are the set. That is the true count while it learns, and the rebuilt one with `own_count`.
    """
    counts = rebuilt.log_count.exp().round() if own_count else true.counts
    slots = torch.arange(rebuilt.offsets.size(2), device=counts.device)
    used = slots < (true.share * counts).clamp(min=1).unsqueeze(-1)
    gaps = torch.cdist(rebuilt.offsets, true.offsets)
    to_true = gaps.masked_fill(~true.members.unsqueeze(2), torch.inf).amin(3)
    to_rebuilt = gaps.masked_fill(~used.unsqueeze(3), torch.inf).amin(2)
    filled = true.members.any(-1)
    chamfer = _mean(to_true, used & filled.unsqueeze(-1)) + _mean(to_rebuilt, true.members)
    wanted = true.counts.clamp(min=1).log()
    return Error(chamfer, functional.l1_loss(rebuilt.log_count[filled], wanted[filled]))


def loss(parts: Error) -> Tensor:
    return parts.chamfer + COUNT_WEIGHT * parts.log_count


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of `values` (B, M, K) over the masked of each sample, then over samples with any."""
    size = mask.sum(-1)
    sums = torch.where(mask, values, 0).sum(-1)
    return (sums / size.clamp(min=1)).sum() / (size > 0).sum().clamp(min=1)
