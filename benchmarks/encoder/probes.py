"""Linear probes: classes of unseen shapes by few examples, and ground in an airborne tile."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import farpoint
from farpoint_models import DensityEncoder
from farpoint_ops import knn, nearest_sample
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
    """Mean accuracy of both classes in the east of a tile, learned in the west."""
    cloud = farpoint.io.read_cloud(next(iter(sorted(folder.glob("autzen_trim*.laz")))))
    rows = np.random.default_rng(0).permutation(len(cloud.points))[:TILE_POINTS]
    points = torch.from_numpy((cloud.points - cloud.points.mean(0))[rows]).float()
    truth = torch.from_numpy((cloud.attributes["classification"][rows] == GROUND).astype(int))
    found = {}
    for name, encoder in encoders.items():
        with torch.no_grad():
            first, *others = encoder(points[None])
        parts = [first.features[0].T]
        for stage in others:
            nearest = nearest_sample(first.points, stage.points)[0][0].long()
            parts += [stage.features[0].T[nearest]]
        found[name] = _balanced(torch.cat(parts, 1), first.indices[0].long(), points, truth)
    samples = first.indices[0].long()
    flat = points * torch.tensor([1.0, 1, 0])
    for count in COLUMNS:
        near = knn(flat[None], flat[None, samples], min(count, len(flat)))[0][0].long()
        height = points[samples, 2] - points[near, 2].amin(1)
        found[f"height above the lowest of {count}"] = _balanced(
            height[:, None], samples, points, truth
        )
    return found


def _balanced(features: Tensor, samples: Tensor, points: Tensor, truth: Tensor) -> float:
    """Least squares on features of samples (M, D), each class weighing the same."""
    features = (features - features.mean(0)) / features.std(0).clamp(min=1e-6)
    features = torch.cat([features, torch.ones(len(features), 1)], 1).double()
    label, west = truth[samples], points[samples, 0] < points[:, 0].median()
    share = label[west].double().mean()
    weight = torch.where(label[west] == 1, 0.5 / share, 0.5 / (1 - share))[:, None]
    known = features[west] * weight.sqrt()
    wanted = (2.0 * label[west, None] - 1) * weight.sqrt()
    ridge = 1e-3 * len(known) * torch.eye(known.size(1), dtype=known.dtype)
    line = torch.linalg.solve(known.T @ known + ridge, known.T @ wanted)
    right = (features[~west] @ line > 0)[:, 0] == (label[~west] == 1)
    return float(np.mean([float(right[label[~west] == kind].double().mean()) for kind in (0, 1)]))
