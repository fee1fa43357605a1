"""Linear probes: classes of unseen shapes by few examples, and ground in an airborne tile."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import farpoint
from farpoint_models import DensityEncoder
from farpoint_ops import knn
from farpoint_training.families import HELD_OUT
from farpoint_training.probe import Describe, described, hand_made, pooled, probe, shape_set
from farpoint_training.sources import rotation

# Seeds that no training run draws from.
SEED = 2**31
POINTS, TRIALS = 1024, 40
# Examples of each class, and how many draws of them the accuracy is a mean of.
SHOTS = {5: 10, 20: 2, 50: 1}
GROUND = 2
TILE_POINTS = 32_768
# Nearest points in the plane among which the lowest is looked for; the best is taken.
COLUMNS = (16, 64, 256, 1024)


def shapes(encoders: Mapping[str, DensityEncoder]) -> dict[str, dict[str, list[float]]]:
    """Accuracy on upright and on tilted shapes of families that training does not see."""
    each = max(SHOTS)
    describers: dict[str, Describe] = {name: pooled(e) for name, e in encoders.items()}
    describers["hand-made statistics"] = hand_made
    known, labels = shape_set(HELD_OUT, each, POINTS, SEED)
    trials, truth = shape_set(HELD_OUT, TRIALS, POINTS, SEED + 1)
    place = torch.arange(each).repeat(len(HELD_OUT))
    found: dict[str, dict[str, list[float]]] = {"upright": {}, "tilted": {}}
    for name, describe in describers.items():
        for pose, turn in (("upright", lambda clouds: clouds), ("tilted", tilted)):
            examples, others = described(describe, turn(known)), described(describe, turn(trials))
            found[pose][name] = []
            for shots, draws in SHOTS.items():
                drawn = [place // shots == draw for draw in range(draws)]
                rates = [probe(examples[few], labels[few], others, truth) for few in drawn]
                found[pose][name].append(float(np.mean(rates)))
    return found


def tilted(clouds: Tensor) -> Tensor:
    """Each turned at random."""
    rng = np.random.default_rng(SEED)
    turns = torch.from_numpy(np.stack([rotation(rng) for _ in clouds])).float()
    return clouds @ turns


def ground(encoders: Mapping[str, DensityEncoder], folder: Path) -> dict[str, float]:
    """Mean accuracy of both classes in one half of a tile, learned in the other; of both ways.

    Of the first stage's features, against the height above the lowest neighbor in the plane.
    """
    cloud = farpoint.io.read_cloud(next(iter(sorted(folder.glob("autzen_trim*.laz")))))
    rows = np.random.default_rng(0).permutation(len(cloud.points))[:TILE_POINTS]
    points = torch.from_numpy((cloud.points - cloud.points.mean(0))[rows]).float()
    truth = torch.from_numpy(cloud.attributes["classification"][rows] == GROUND)
    described_by = {}
    for name, encoder in encoders.items():
        with torch.no_grad():
            stage = encoder(points[None])[0]
        described_by[name] = stage.features[0].T
    samples = stage.indices[0].long()
    flat = points * torch.tensor([1.0, 1, 0])
    for count in COLUMNS:
        near = knn(flat[None], flat[None, samples], min(count, len(flat)))[0][0].long()
        height = (points[samples, 2] - points[near, 2].amin(1))[:, None]
        described_by[f"height above the lowest of {count}"] = height
        described_by[f"logarithm of it, {count}"] = (height + 0.1).log()
    label, west = truth[samples], points[samples, 0] < points[:, 0].median()
    return {
        name: float(np.mean([_balanced(features, label, half) for half in (west, ~west)]))
        for name, features in described_by.items()
    }


def _balanced(features: Tensor, label: Tensor, known: Tensor) -> float:
    """Accuracy of least squares on features (M, D), each class weighing the same."""
    features = (features - features.mean(0)) / features.std(0).clamp(min=1e-6)
    features = torch.cat([features, torch.ones(len(features), 1)], 1).double()
    share = label[known].double().mean()
    weight = torch.where(label[known], 0.5 / share, 0.5 / (1 - share)).sqrt()[:, None]
    seen, wanted = features[known] * weight, (2.0 * label[known, None] - 1) * weight
    ridge = 1e-3 * len(seen) * torch.eye(seen.size(1), dtype=seen.dtype)
    line = torch.linalg.solve(seen.T @ seen + ridge, seen.T @ wanted)
    right = (features[~known] @ line > 0)[:, 0] == label[~known]
    return float(np.mean([float(right[label[~known] == k].double().mean()) for k in (0, 1)]))
