"""How far a rebuilt collapsed set is from the true one."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from farpoint_models.encoder import EncodedStage
from farpoint_ops import group_points, knn, nearest_sample
from farpoint_training.decoder import Rebuilt, StageDecoder

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
    """What a decoder is to rebuild from clouds (B, N, 3) whose rows are in random order."""
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
