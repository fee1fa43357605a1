"""The settings of a training run, its state and its step."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from farpoint_models.config import EncoderConfig
from farpoint_models.decoder import Decoders, spacing
from farpoint_models.encoder import DensityEncoder, EncodedStage
from farpoint_ops import gather_points, knn
from farpoint_training.contrast import contrast
from farpoint_training.sources import Source, View, rooms, scans, shapes, views

FIRST_SCENE = 1000
CLIP = 1.0
LINE_EVERY = 100
# Degrees that an upright view leans at most.
TILT = 8.0


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        encoder: The model.
        steps: Optimizer steps.
        points: Points of a step, each of two views.
        seed: Of weights and data.
        learning_rate: At the start; falls to zero along a cosine.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    steps: int = 1500
    points: int = 4096
    seed: int = 0
    learning_rate: float = 3e-3


class Trainer:
    """An encoder with a decoder of each stage."""

    def __init__(self, settings: Settings):
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.encoder = DensityEncoder(settings.encoder)
        self.decoders = Decoders(settings.encoder)
        self.parts = nn.ModuleDict({"encoder": self.encoder, "decoders": self.decoders})
        self.optimizer = torch.optim.AdamW(self.parts.parameters(), lr=settings.learning_rate)
        streets = scans(FIRST_SCENE + 100 * settings.seed)
        self.sources: list[Source] = [shapes(), rooms(), streets]
        self.step_count = 0

    def run(self) -> None:
        """All steps; prints mean losses now and then."""
        losses: list[dict[str, float]] = []
        for count in range(1, self.settings.steps + 1):
            losses.append(self.step())
            if count % LINE_EVERY == 0 or count == self.settings.steps:
                means = {name: np.mean([each[name] for each in losses]) for name in losses[0]}
                shown = "  ".join(f"{name} {mean:.4f}" for name, mean in means.items())
                print(f"step {count}/{self.settings.steps}  {shown}", flush=True)
                losses.clear()

    def step(self) -> dict[str, float]:
        """One optimizer step; returns the parts of the loss."""
        settings = self.settings
        rng = np.random.default_rng((settings.seed, self.step_count))
        upright = self.step_count % 2 == 0
        pair = views(self.sources, settings.points, rng, TILT if upright else 180.0)
        for group in self.optimizer.param_groups:
            done = self.step_count / settings.steps
            group["lr"] = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        encoded = [self.encoder(view.seen) for view in pair]
        losses = {
            "contrast": self.contrast(pair, encoded, upright=upright),
            "rebuild": self.rebuild(pair[0].seen, encoded[0]),
        }
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(losses["contrast"] + losses["rebuild"])
        for part in self.parts.values():
            nn.utils.clip_grad_norm_(part.parameters(), CLIP)
        self.optimizer.step()
        self.step_count += 1
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def contrast(
        self, pair: tuple[View, View], encoded: list[tuple[EncodedStage, ...]], *, upright: bool
    ) -> Tensor:
        """Mean loss over stages, of the invariant features, and of the upright ones as well."""
        config, losses = self.settings.encoder, []
        first = slice(0, config.invariant)
        parts = [first, slice(0, config.invariant + config.upright)] if upright else [first]
        for stages in zip(*encoded, strict=True):
            places = [
                gather_points(view.places.mT, stage.indices).mT
                for view, stage in zip(pair, stages, strict=True)
            ]
            for part in parts:
                one, other = (stage.features[:, part] for stage in stages)
                losses += [contrast(one, other, *places)]
        return torch.stack(losses).mean()

    def rebuild(self, xyz: Tensor, encoded: tuple[EncodedStage, ...]) -> Tensor:
        """Chamfer distance of what the decoders rebuild, in spacings of the samples."""
        losses = []
        for stage, decoder in zip(encoded, self.decoders, strict=True):
            rebuilt, _ = decoder(stage.points, stage.features, stage.counts)
            gaps = [
                knn(a, b, 1)[1].clamp(min=1e-12).sqrt().mean(1)
                for a, b in ((xyz, rebuilt[:, : xyz.size(1)]), (rebuilt[:, : xyz.size(1)], xyz))
            ]
            losses.append(((gaps[0] + gaps[1])[:, 0] / spacing(stage.points).flatten()).mean())
        return torch.stack(losses).mean()
