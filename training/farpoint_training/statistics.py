"""A cloud in numbers that anyone could write down: what features have to beat."""

import torch
from torch import Tensor

from farpoint_ops import knn

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def hand_made(xyz: Tensor) -> Tensor:
    """40 statistics of each cloud (B, N, 3), most of them free of its size and heading.

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
