"""What a feature is asked to know: the collapsed set of its sample, and how many points it has."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.encoder import EncodedStage

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
