"""Errors and probes of a trained encoder on unseen clouds."""

from collections.abc import Sequence
from typing import Any

import torch

from farpoint_models.encoder import DensityEncoder
from farpoint_training.families import HELD_OUT, TRAINING
from farpoint_training.probe import described, hand_made, pooled, probe, shape_set
from farpoint_training.reconstruction import error
from farpoint_training.sources import Source, batch, scans, shapes
from farpoint_training.trainer import Trainer

# Seeds that no training run draws from.
SEED = 2**31
SCENE = 900_000
POINTS = 1024
BATCHES = 6
# Labelled examples of each class for the probe, and clouds to try it on.
SHOTS, TRIALS = (5, 20, 50), 40


def report(trainer: Trainer) -> dict[str, Any]:
    """Reconstruction next to the feature-free baseline, and linear probes on held-out classes."""
    trainer.parts.eval()
    sources = {
        "training families": [shapes(TRAINING)],
        "held-out families": [shapes(HELD_OUT)],
        "unseen scans": [scans(SCENE, scenes=2)],
    }
    found = {
        "settings": trainer.settings.describe(),
        "reconstruction": {name: reconstruction(trainer, s) for name, s in sources.items()},
        "probe": probes(trainer.encoder),
    }
    trainer.parts.train()
    return found


@torch.no_grad()
def reconstruction(trainer: Trainer, sources: Sequence[Source]) -> list[dict[str, float]]:
    """For each stage, the mean errors of the decoder and of the baseline, with their own counts."""
    stages = len(trainer.encoder.stages)
    names = ("chamfer", "log_count", "baseline_chamfer", "baseline_log_count")
    sums = torch.zeros(stages, len(names))
    for step in range(BATCHES):
        xyz = batch(sources, trainer.settings.points, SEED, step)
        encoded = trainer.encoder(xyz)
        for row, (true, *both) in zip(sums, trainer.rebuild(xyz, encoded), strict=True):
            row += torch.stack([e for b in both for e in error(b, true, own_count=True)])
    return [dict(zip(names, row.tolist(), strict=True)) for row in sums / BATCHES]


def probes(encoder: DensityEncoder) -> list[dict[str, Any]]:
    """Accuracy by few and many examples: our features, those of random weights, statistics."""
    torch.manual_seed(0)
    describers = {
        "trained": pooled(encoder),
        "untrained": pooled(DensityEncoder(encoder.config).eval()),
        "hand_made": hand_made,
    }
    clouds, labels = shape_set(HELD_OUT, max(SHOTS), POINTS, SEED)
    trials, truth = shape_set(HELD_OUT, TRIALS, POINTS, SEED + 1)
    position = torch.arange(max(SHOTS)).repeat(len(HELD_OUT))
    rows: list[dict[str, Any]] = [{"examples_per_class": shots} for shots in SHOTS]
    for name, describe in describers.items():
        known, unknown = described(describe, clouds), described(describe, trials)
        for row in rows:
            few = position < row["examples_per_class"]
            row[name] = probe(known[few], labels[few], unknown, truth)
    return rows
