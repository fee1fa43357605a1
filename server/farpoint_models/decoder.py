"""Decoder of an encoder's answer: a cloud of as many points as before.

As in He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR
2022, section 3.3, each sample is replaced by as many points as its count says, at offsets that
come from its feature. A point's offset is a function of the feature and of a place in the unit
square, as in Yang, Feng, Shen and Tian, "FoldingNet", CVPR 2018, so a sample may have any count.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_models.config import EncoderConfig
from farpoint_ops import gather_points, knn

# Of a sample's code: one byte each.
CODE, LEVELS = 8, 127
HIDDEN = 64
# Multiples of these are spread evenly over the unit square (Roberts, the R2 sequence).
STEPS = (0.7548776662466927, 0.5698402909980532)


class Decoder(nn.Module):
    """Rebuilds clouds from the answer of one stage.

    Args:
        config: Of the encoder.
        stage: Which of its stages, from 0.
    """

    def __init__(self, config: EncoderConfig, stage: int):
        super().__init__()
        self.oriented = config.oriented.channels
        self.each = math.ceil(1 / math.prod(config.rates[: stage + 1]) - 1e-6)
        self.squeeze = nn.Conv1d(self.oriented, CODE, 1)
        self.widen = nn.Conv1d(CODE, HIDDEN, 1)
        self.place = nn.Conv1d(6, HIDDEN, 1, bias=False)
        self.fold = nn.Conv1d(HIDDEN, HIDDEN, 1)
        self.refine = nn.Conv1d(HIDDEN, HIDDEN, 1)
        self.out = nn.Conv1d(HIDDEN, 3, 1)

    def forward(self, points: Tensor, features: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Rebuilds clouds from an `EncodedStage`: its points, features and counts, (B, ..., M).

        Returns:
            As `rebuild`.
        """
        return self.rebuild(points, self.code(features), counts)

    def code(self, features: Tensor) -> Tensor:
        """What the decoder takes from features (B, C, M): whole numbers -127..127, (B, 8, M)."""
        code = LEVELS * torch.tanh(self.squeeze(features[:, -self.oriented :]))
        return code + (code.round() - code).detach()

    def rebuild(self, points: Tensor, code: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Rebuilds clouds from codes.

        Args:
            points: Samples (B, M, 3), float32.
            code: Of their features, (B, 8, M), of any dtype.
            counts: Points that each stands for, int32 or int64 (B, M).

        Returns:
            Points (B, R, 3), each sample before the others that it stands for, zero behind the
            last, and their number, int64 (B,): the sum of the counts. R is M times the points that
            a sample stands for on average.
        """
        rows = torch.arange(points.size(1) * self.each, device=points.device)
        ends = counts.long().cumsum(1)
        owner = torch.searchsorted(ends, rows.expand(ends.size(0), -1).contiguous(), right=True)
        owner = owner.clamp(max=points.size(1) - 1)
        number = rows - (ends - counts).gather(1, owner)
        offsets = self._offsets(
            gather_points(self.widen(code.to(points.dtype) / LEVELS), owner), number
        )
        rebuilt = gather_points(points.mT, owner) + offsets * spacing(points)
        real = rows < ends[:, -1:]
        return torch.where(real.unsqueeze(1), rebuilt, 0).mT, ends[:, -1]

    def _offsets(self, wide: Tensor, number: Tensor) -> Tensor:
        """Of points by their number within the sample's: (B, H, R), (B, R) -> (B, 3, R)."""
        place = torch.stack([(number * step) % 1 for step in STEPS], 1).to(wide.dtype)
        waves = torch.cat([place, torch.sin(math.tau * place), torch.cos(math.tau * place)], 1)
        folded = functional.relu(wide + self.place(waves))
        folded = functional.relu(self.fold(folded))
        folded = functional.relu(self.refine(folded))
        offsets: Tensor = self.out(folded)
        return torch.where((number == 0).unsqueeze(1), 0, offsets)


def spacing(points: Tensor) -> Tensor:
    """Mean distance from a sample to the next, (B, 1, 1)."""
    apart = knn(points, points, min(2, points.size(1)))[1][..., -1]
    return apart.sqrt().mean(1)[:, None, None]


class Decoders(nn.ModuleList):
    """A decoder for each stage of an encoder."""

    def __init__(self, config: EncoderConfig):
        super().__init__(Decoder(config, stage) for stage in range(len(config.rates)))
        self.config = config
