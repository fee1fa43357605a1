"""Features of the surface around a sample that a rotation does not change, or a turn about z.

Their inputs are products of offsets, normals and means, so that a rotation cancels out. Lengths are
divided by the spread of the neighborhood, so that the unit and the density cancel out too. Point
pair features do this with angles: Rusu, Blodow and Beetz, "Fast Point Feature Histograms (FPFH) for
3D registration", ICRA 2009.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_models.config import EncoderConfig
from farpoint_models.level import Neighborhood
from farpoint_ops import gather_points, group_points

# Each squaring doubles the exponent by which the normal stands out.
SQUARINGS = 3
# Off the diagonal, entries of a symmetric matrix are times this: the inner product of two such
# vectors of six is then the trace of the matrices' product.
TWICE = 2**0.5


class Patch(NamedTuple):
    """Moments of the neighborhoods of M samples.

    Attributes:
        mean: Mean offset over `radius`, (B, 3, M).
        normal: Soft projection onto the normal, (B, 6, M), of trace 1.
        radius: Root mean square of the offsets, (B, 1, M); 1 where all are zero.
    """

    mean: Tensor
    normal: Tensor
    radius: Tensor

    @classmethod
    def of(cls, offsets: Tensor, real: Tensor | None) -> "Patch":
        """The moments of offsets (B, 3, M, K), those that are `real`."""
        squared = _mean(offsets.square().sum(1, keepdim=True), real)
        radius = torch.where(squared == 0, 1, squared).sqrt()
        unit = offsets / radius.unsqueeze(-1)
        mean = _mean(unit, real)
        return cls(mean, _normal(_mean(_outer(unit), real) - _outer(mean)), radius)

    def typical(self, real: Tensor | None) -> Tensor:
        """Mean radius of each cloud, (B, 1, 1)."""
        return _mean(self.radius, None if real is None else real[..., 0]).unsqueeze(-1)


def _mean(x: Tensor, real: Tensor | None) -> Tensor:
    """Over the last dimension."""
    if real is None:
        return x.mean(-1)
    return torch.where(real, x, 0).sum(-1) / _count(real)


def _count(real: Tensor) -> Tensor:
    return real.sum(-1).clamp(min=1)


def _as_rows(x: Tensor) -> Tensor:
    """(B, C, ...) -> (P, C)."""
    return x.flatten(2).mT.flatten(0, 1)


def _outer(x: Tensor) -> Tensor:
    """Outer products of (B, 3, ...) with themselves, (B, 6, ...): xx, yy, zz, xy, yz, zx."""
    return torch.cat([x * x, (x * TWICE).mul_(x.roll(-1, 1))], 1)


def _normal(covariance: Tensor) -> Tensor:
    """A power of trace - covariance, (B, 6, M).

    For a flat patch it is the outer product of its normal. Unlike an eigenvector it has no sign,
    and it has a gradient where eigenvalues coincide.
    """
    xx, yy, zz = covariance[:, :3].unbind(1)
    xy, yz, xz = (covariance[:, 3:] / -TWICE).unbind(1)
    trace = xx + yy + zz
    trace = torch.where(trace <= 0, 1, trace)
    entries = [trace - xx, xy, xz, xy, trace - yy, yz, xz, yz, trace - zz]
    power = (torch.stack(entries, -1) / trace.unsqueeze(-1)).view(*trace.shape, 3, 3)
    for _ in range(SQUARINGS):
        power = power @ power
    xx, xy, xz, _, yy, yz, _, _, zz = power.flatten(-2).unbind(-1)
    entries = [xx, yy, zz, xy * TWICE, yz * TWICE, xz * TWICE]
    return torch.stack(entries, 1) / (xx + yy + zz).unsqueeze(1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1, keepdim=True)


class Surroundings(NamedTuple):
    """Products that do not change under rotation, or under turns about z.

    Attributes:
        samples: Of samples, (B, *, M).
        pairs: Of samples and neighbors, (B, *, M, K).
        upright_samples: As `samples`, with heights.
        upright_pairs: As `pairs`, with heights.
    """

    samples: Tensor
    pairs: Tensor
    upright_samples: Tensor
    upright_pairs: Tensor


# Channels of each; pairs of the first stage, whose points have no patches, have fewer.
SAMPLES, PAIRS, FIRST_PAIRS = (4, 6), (8, 11), (3, 4)


def surroundings(
    offsets: Tensor, patch: Patch, before: Patch | None, hood: Neighborhood
) -> Surroundings:
    """Products of the offsets (B, 3, M, K) from samples to neighbors and of moments.

    Args:
        offsets: From samples to neighbors.
        patch: Of the samples.
        before: Of all points, in the stage before; None in the first.
        hood: Neighbors.
    """
    mean, normal, radius = (part.unsqueeze(-1) for part in patch)
    unit = offsets / radius
    outer = _outer(unit)
    samples = [
        _dot(patch.mean, patch.mean),
        _dot(patch.normal, patch.normal),
        _dot(_outer(patch.mean), patch.normal),
        patch.radius / (patch.radius + patch.typical(hood.real)),
    ]
    pairs = [_dot(unit, unit), _dot(outer, normal), _dot(unit, mean)]
    heights = [unit[:, 2:]]
    if before is not None:
        near = group_points(torch.cat(before, 1), hood.rows)
        means, normals, radii = torch.split(near, [3, 6, 1], 1)
        pairs += [_dot(outer, normals), _dot(unit, means), _dot(normal, normals)]
        pairs += [_dot(mean, means), radii / (radii + radius)]
        heights += [means[:, 2:], normals[:, 2:3]]
    upright = [*samples, patch.mean[:, 2:], patch.normal[:, 2:3]]
    return Surroundings(
        *(torch.cat(parts, 1) for parts in (samples, pairs, upright, [*pairs, *heights]))
    )


class SurfaceEmbedding(nn.Module):
    """Features of length 1 from a sample's surroundings and its neighbors' features."""

    def __init__(self, samples: int, pairs: int, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.pair = nn.Conv2d(pairs, hidden, 1)
        self.near = nn.Conv1d(inputs, hidden, 1, bias=False)
        self.own = nn.Conv1d(inputs + samples, hidden, 1, bias=False)
        self.mix = nn.Conv2d(hidden, hidden, 1)
        self.project = nn.Conv1d(2 * hidden + inputs + samples, outputs, 1)

    def forward(
        self, features: Tensor, picks: Tensor, samples: Tensor, pairs: Tensor, hood: Neighborhood
    ) -> Tensor:
        """(B, C, N), (B, M), (B, *, M), (B, *, M, K) -> (B, C', M)."""
        dtype = self.pair.weight.dtype
        own = torch.cat([gather_points(features, picks), samples.to(dtype)], 1)
        # A row for each pair: neighbors are gathered, and pooled, as whole rows.
        clouds, m, k = hood.rows.shape
        firsts = torch.arange(clouds, device=own.device)[:, None, None] * features.size(2)
        places = (hood.rows.clamp(min=0) + firsts).flatten()
        mixed = functional.linear(_as_rows(pairs.to(dtype)), self.pair.weight.flatten(1))
        near = functional.linear(_as_rows(features), self.near.weight.flatten(1))
        mixed += near.index_select(0, places)
        # The bias is added once for each sample.
        once = functional.linear(_as_rows(own), self.own.weight.flatten(1), self.pair.bias)
        mixed.view(-1, k, mixed.size(1)).add_(once.unsqueeze(1)).relu_()
        mixed = functional.linear(mixed, self.mix.weight.flatten(1), self.mix.bias)
        mixed = mixed.relu_().view(clouds, m, k, -1)
        if hood.real is not None:  # zeros change no maximum after a ReLU
            mixed = torch.where(hood.real.squeeze(1).unsqueeze(-1), mixed, 0)
        mean = mixed.sum(2) / (k if hood.real is None else _count(hood.real).mT)
        projected: Tensor = self.project(torch.cat([mixed.amax(2).mT, mean.mT, own], 1))
        return functional.normalize(projected, dim=1)


class SurfaceStage(nn.Module):
    """Features that do not change under rotation, then features that also know what is up.

    Args:
        config: Of the encoder.
        first: Whether the features before are those of the cloud.
    """

    def __init__(self, config: EncoderConfig, *, first: bool):
        super().__init__()
        self.invariant = config.invariant
        inputs = (1 + config.attributes,) * 2
        if not first:
            inputs = (config.invariant, config.invariant + config.upright)
        sizes = zip(SAMPLES, FIRST_PAIRS if first else PAIRS, inputs, strict=True)
        turned, upright = (
            SurfaceEmbedding(*size, 3 * config.hidden, out)
            for size, out in zip(sizes, (config.invariant, config.upright), strict=True)
        )
        self.turned, self.upright = turned, upright

    def forward(
        self, features: Tensor, picks: Tensor, found: Surroundings, hood: Neighborhood
    ) -> Tensor:
        """(B, C, N), (B, M) -> (B, invariant + upright, M), zero in padding."""
        own = features[:, : self.turned.near.in_channels]
        turned = self.turned(own, picks, found.samples, found.pairs, hood)
        upright = self.upright(features, picks, found.upright_samples, found.upright_pairs, hood)
        out = torch.cat([turned, upright], 1)
        return out if hood.real is None else torch.where(hood.real[..., 0], out, 0)
