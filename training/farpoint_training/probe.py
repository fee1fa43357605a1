"""Linear probe: accuracy of a linear classifier on features or statistics of shapes."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_models.encoder import DensityEncoder, EncodedStage
from farpoint_ops import knn
from farpoint_training.families import sample_shape

Describe = Callable[[Tensor], Tensor]
PENALTY = 1e-3


def shape_set(names: Sequence[str], each: int, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """`each` clouds of every family, seen from one side: float32 (B, points, 3), and the number of
    the family (B,)."""
    rng = np.random.default_rng(seed)
    drawn = [name for name in names for _ in range(each)]
    clouds = [sample_shape(name, points, rng, partial=True) for name in drawn]
    return torch.from_numpy(np.stack(clouds)), torch.arange(len(names)).repeat_interleave(each)


def pooled(encoder: DensityEncoder) -> Describe:
    """Every stage's features, pooled over its samples."""
    return lambda xyz: torch.cat([pool for stage in encoder(xyz) for pool in _pools(stage)], 1)


def _pools(stage: EncodedStage) -> list[Tensor]:
    """Mean, deviation, maximum, and how features go with height and with distance from the axis."""
    features, points = stage.features, stage.points - stage.points.mean(1, keepdim=True)
    size = points.square().sum(2).mean(1).sqrt().clamp(min=1e-6)[:, None]
    centered = features - features.mean(2, keepdim=True)
    places = (points[..., 2] / size, points[..., :2].norm(dim=2) / size)
    together = [(centered * place.unsqueeze(1)).mean(2) for place in places]
    return [features.mean(2), features.std(2, correction=0), features.amax(2), *together]


@torch.no_grad()
def described(describe: Describe, clouds: Tensor) -> Tensor:
    """(B, D), a few clouds at a time."""
    parts = torch.split(clouds, 16)
    return torch.cat([describe(part) for part in parts])


def probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor) -> float:
    """Accuracy on `test` (B, D) of a logistic regression fitted to `train`.

    Features are first divided by their deviations in `train`.
    """
    mean, deviation = train.mean(0), train.std(0).clamp(min=1e-6)
    train, test = ((part - mean) / deviation for part in (train, test))
    linear = nn.Linear(train.size(1), int(labels.max()) + 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    optimizer = torch.optim.LBFGS(linear.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def penalized() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(linear(train), labels)
        loss = loss + PENALTY * linear.weight.square().sum()
        torch.autograd.backward(loss)
        return loss

    optimizer.step(penalized)  # type: ignore[no-untyped-call]
    return float((linear(test).argmax(1) == truth).float().mean())


QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def hand_made(xyz: Tensor) -> Tensor:
    """40 statistics of each cloud (B, N, 3), most of them invariant to size and heading.

    Extents and spread along and around the vertical, the shape of the covariance, how distances
    from the middle, heights and gaps between neighbors are spread, and how flat or thin
    neighborhoods of 16 points are.
    """
    centered = xyz - xyz.mean(1, keepdim=True)
    size = centered.square().sum(2).mean(1).sqrt()[:, None]
    unit = centered / size[..., None]
    gaps = knn(unit, unit, 17)[1][..., 1:].sqrt()
    flat = unit[..., :2].norm(dim=2)
    parts = [
        size.log(),
        _spectrum(unit),
        unit.amax(1)[:, 2:] - unit.amin(1)[:, 2:],
        flat.amax(1, keepdim=True),
        *(_spread(values) for values in (unit.norm(dim=2), flat, unit[..., 2])),
        *(_spread(values) for values in (gaps[..., 0], gaps[..., -1])),
        _flatness(unit),
    ]
    return torch.cat(parts, 1)


def _spread(values: Tensor) -> Tensor:
    """Standard deviation and quantiles of (B, N)."""
    levels = torch.tensor(QUANTILES, device=values.device)
    return torch.cat([values.std(1, keepdim=True), values.quantile(levels, dim=1).T], 1)


def _spectrum(unit: Tensor) -> Tensor:
    """Eigenvalues of the covariance (B, 3)."""
    values: Tensor = torch.linalg.eigvalsh(unit.mT @ unit / unit.size(1))
    return values


def _flatness(unit: Tensor) -> Tensor:
    """Mean and deviation of the normalized local eigenvalues, (B, 4)."""
    rows = knn(unit, unit, 16)[0].long()
    cloud = torch.arange(len(unit), device=unit.device)[:, None, None]
    near = unit[cloud, rows]
    near = near - near.mean(2, keepdim=True)
    values = torch.linalg.eigvalsh(near.mT @ near)
    values = values[..., :2] / values.sum(-1, keepdim=True).clamp(min=1e-12)
    return torch.cat([values.mean(1), values.std(1)], 1)
