"""The settings of a training run, its state and its step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.encoder import DensityEncoder, EncodedStage
from farpoint_training.reconstruction import (
    Decoder,
    Rebuilt,
    StageDecoder,
    Target,
    error,
    loss,
    target,
)
from farpoint_training.sources import Source, batch, scans, shapes

# Scenes that training may see start here; those of the report elsewhere.
FIRST_SCENE = 1000


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        encoder: The model.
        steps: Optimizer steps.
        points: Points in a step, over all its clouds.
        seed: Of weights and data.
        learning_rate: At the start; falls to zero along a cosine.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    steps: int = 4000
    points: int = 4096
    seed: int = 0
    learning_rate: float = 2e-3

    def sources(self) -> list[Source]:
        return [shapes(), scans(FIRST_SCENE + 100 * self.seed)]

    def describe(self) -> dict[str, object]:
        """The settings as JSON values."""
        return asdict(self)


CLIP = 1.0


class Trainer:
    """An encoder with its decoder, and the baseline, a decoder without features."""

    def __init__(self, settings: Settings):
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.encoder = DensityEncoder(settings.encoder)
        self.decoder = Decoder(settings.encoder)
        self.baseline = Decoder(settings.encoder, blind=True)
        self.parts = nn.ModuleDict(
            {"encoder": self.encoder, "decoder": self.decoder, "baseline": self.baseline}
        )
        self.optimizer = torch.optim.AdamW(self.parts.parameters(), lr=settings.learning_rate)
        self.sources = settings.sources()
        self.step_count = 0

    def step(self) -> float:
        """One optimizer step; returns the loss of encoder and decoder."""
        xyz = batch(self.sources, self.settings.points, self.settings.seed, self.step_count)
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        encoded = self.encoder(xyz)
        ours, blind = 0.0 * xyz.sum(), 0.0 * xyz.sum()
        for true, seeing, guessing in self.rebuild(xyz, encoded):
            ours = ours + loss(error(seeing, true))
            blind = blind + loss(error(guessing, true))
        self.optimizer.zero_grad(set_to_none=True)
        # The two share no weights: each is trained as if it were alone.
        torch.autograd.backward(ours + blind)
        for part in self.parts.values():
            nn.utils.clip_grad_norm_(part.parameters(), CLIP)
        self.optimizer.step()
        self.step_count += 1
        return float(ours.detach()) / len(encoded)

    def rebuild(
        self, xyz: Tensor, encoded: tuple[EncodedStage, ...]
    ) -> Iterator[tuple[Target, Rebuilt, Rebuilt]]:
        """Target, decoder output and baseline output of each stage."""
        pairs = zip(self.decoder(encoded), self.baseline(encoded), strict=True)
        for stage, decoder, pair in zip(encoded, self.decoder.stages, pairs, strict=True):
            yield (target(xyz, stage, cast("StageDecoder", decoder)), *pair)

    def _learning_rate(self) -> float:
        done = self.step_count / self.settings.steps
        return self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


SMOOTHING = 0.98
LINE_EVERY = 100


def progress(total: int) -> Callable[[int, float], None]:
    """A function that takes the steps done and the loss of the last, and prints now and then."""
    sums = [0.0, 0.0]

    def update(done: int, loss: float) -> None:
        for i, value in enumerate((loss, 1.0)):
            sums[i] += (1 - SMOOTHING) * (value - sums[i])
        if done % LINE_EVERY == 0 or done == total:
            print(f"step {done}/{total}  loss {sums[0] / sums[1]:.4f}", flush=True)

    return update
