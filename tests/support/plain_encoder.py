"""The encoder's equations in plain torch, cloud by cloud: what it is tested against.

He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022,
section 3.2: all distances at once, `torch.unique` to count, indexing to gather, and farthest point
sampling anew in every stage. Written from the paper, on the weights of a `DensityEncoder`.
"""

import math
from itertools import zip_longest
from typing import NamedTuple, cast

import torch
from tests.support.clouds import furthest_points
from torch import Tensor, nn

from farpoint_models.encoder import DensityEncoder
from farpoint_models.layers import DensityStage, GroupNorm, PointwiseMLP
from farpoint_models.surface import SurfaceEmbedding, SurfaceStage


class PlainStage(NamedTuple):
    """One cloud after a stage: the fields of `EncodedStage` without the batch."""

    indices: Tensor
    points: Tensor
    features: Tensor
    counts: Tensor
    mean_distance: Tensor


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Exact, unlike the fast mode of `torch.cdist`, which loses half of the digits."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def encode(
    encoder: DensityEncoder, xyz: Tensor, attributes: Tensor | None = None
) -> list[PlainStage]:
    """Encode one cloud (N, 3), with attributes (A, N) if the model has any."""
    columns = torch.ones(1, len(xyz)) if attributes is None else _with_one(attributes)
    features, surface, patches = _conv(encoder.lift, columns), columns, None
    indices, counts = torch.arange(len(xyz)), torch.ones(len(xyz), dtype=torch.int64)
    stages = []
    for rate, module, describe in zip_longest(
        encoder.config.rates, encoder.stages, encoder.surfaces
    ):
        m = math.ceil(round(len(xyz) * rate, 6))
        stage = cast("DensityStage", module)
        picks = torch.from_numpy(furthest_points(xyz.numpy(), m))
        gaps = distances(xyz, xyz[picks])
        owner = gaps.argmin(1)
        present, sizes = torch.unique(owner, return_counts=True)
        collapsed = torch.zeros(m, dtype=torch.int64).index_put((present,), sizes)
        own = gaps.gather(1, owner[:, None])[:, 0]
        mean_distance = torch.zeros(m).index_add(0, owner, own) / collapsed.clamp(min=1)
        neighbors = min(encoder.config.neighbors, len(xyz))
        rows = distances(xyz[picks], xyz).topk(neighbors, largest=False)[1]
        members = owner[rows] == torch.arange(m)[:, None]
        offsets = (xyz[rows] - xyz[picks][:, None]).permute(2, 0, 1)
        found = torch.zeros(0, m)
        if describe is not None:
            new = _patches(offsets)
            found = surface = _surface(describe, surface, picks, rows, offsets, new, patches)
            patches, offsets = new, offsets / new[2].mean()
        features = _stage(stage, features, offsets, picks, rows, members, collapsed)
        counts = torch.zeros(m, dtype=torch.int64).index_add(0, owner, counts)
        xyz, indices = xyz[picks], indices[picks]
        both = torch.cat([found, features])
        stages.append(PlainStage(indices, xyz, both, counts, mean_distance))
    return stages


def _stage(
    stage: DensityStage,
    features: Tensor,
    offsets: Tensor,
    picks: Tensor,
    rows: Tensor,
    members: Tensor,
    collapsed: Tensor,
) -> Tensor:
    """Features (C, N) of all points -> (C, M) of the picked."""
    mixed = _conv(stage.mix, features)
    ancestor = stage.ancestor
    query = _conv(ancestor.query, mixed[:, picks])
    keys, values = _conv(ancestor.key, mixed)[:, rows], _conv(ancestor.value, mixed)[:, rows]
    position = _mlp(ancestor.position, -offsets)
    scores = _mlp(ancestor.score, query[:, :, None] - keys + position) / math.sqrt(len(keys))
    attended = (_softmax(scores, members) * (values + position)).sum(2)
    attended = _conv(ancestor.project, attended) + mixed[:, picks]

    length = offsets.norm(dim=0, keepdim=True)
    polar = torch.cat([nn.functional.normalize(offsets, dim=0), length])
    embedded = _mlp(stage.position.embed, polar)
    local = (embedded * _softmax(_mlp(stage.position.score, embedded), members)).sum(2)

    density = _mlp(stage.density, collapsed.float()[None])
    return _conv(stage.join, torch.cat([attended, local, density])) + features[:, picks]


Patches = tuple[Tensor, Tensor, Tensor]


def _patches(offsets: Tensor) -> Patches:
    """Means (M, 3), soft normals (M, 3, 3) and radii (M,) of offsets (3, M, K)."""
    away = offsets.permute(1, 2, 0)
    radius = away.square().sum(2).mean(1).sqrt()
    radius = torch.where(radius == 0, 1, radius)
    unit = away / radius[:, None, None]
    mean = unit.mean(1)
    covariance = unit.mT @ unit / unit.size(1) - mean[:, :, None] * mean[:, None]
    trace = covariance.diagonal(dim1=1, dim2=2).sum(1)
    trace = torch.where(trace <= 0, 1, trace)[:, None, None]
    power = torch.linalg.matrix_power(torch.eye(3) - covariance / trace, 8)
    return mean, power / power.diagonal(dim1=1, dim2=2).sum(1)[:, None, None], radius


def _surface(
    stage: SurfaceStage,
    features: Tensor,
    picks: Tensor,
    rows: Tensor,
    offsets: Tensor,
    patches: Patches,
    before: Patches | None,
) -> Tensor:
    """Features (C, N) of all points -> (C, M) of the picked."""
    mean, normal, radius = patches
    unit = offsets.permute(1, 2, 0) / radius[:, None, None]
    samples = [
        (mean * mean).sum(1),
        (normal * normal).sum((1, 2)),
        torch.einsum("mi,mij,mj->m", mean, normal, mean),
        radius / (radius + radius.mean()),
    ]
    pairs = [
        (unit * unit).sum(2),
        torch.einsum("mki,mij,mkj->mk", unit, normal, unit),
        torch.einsum("mki,mi->mk", unit, mean),
    ]
    heights = [unit[..., 2]]
    if before is not None:
        means, normals, radii = (part[rows] for part in before)
        pairs += [
            torch.einsum("mki,mkij,mkj->mk", unit, normals, unit),
            (unit * means).sum(2),
            torch.einsum("mij,mkij->mk", normal, normals),
            torch.einsum("mi,mki->mk", mean, means),
            radii / (radii + radius[:, None]),
        ]
        heights += [means[..., 2], normals[..., 2, 2]]
    upright = [*samples, mean[:, 2], normal[:, 2, 2]]
    own = features[: stage.turned.near.in_channels]
    turned = _embedding(stage.turned, own, picks, rows, torch.stack(samples), torch.stack(pairs))
    both = torch.stack(upright), torch.stack([*pairs, *heights])
    return torch.cat([turned, _embedding(stage.upright, features, picks, rows, *both)])


def _embedding(
    module: SurfaceEmbedding,
    features: Tensor,
    picks: Tensor,
    rows: Tensor,
    samples: Tensor,
    pairs: Tensor,
) -> Tensor:
    own = torch.cat([features[:, picks], samples])
    hidden = _conv(module.pair, pairs) + _conv(module.near, features[:, rows])
    hidden = _conv(module.mix, (hidden + _conv(module.own, own)[..., None]).clamp(min=0))
    hidden = hidden.clamp(min=0)
    out = _conv(module.project, torch.cat([hidden.amax(2), hidden.mean(2), own]))
    return out / out.norm(dim=0)


def _with_one(attributes: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(attributes[:1]), attributes])


def _conv(conv: nn.Module, x: Tensor) -> Tensor:
    """A convolution of size 1 over (C, ...) is a matrix."""
    weight, bias = cast("Tensor", conv.weight), cast("Tensor | None", conv.bias)
    out: Tensor = torch.tensordot(weight.flatten(1), x, 1)
    return out if bias is None else out + bias.view(-1, *[1] * (x.dim() - 1))


def _mlp(mlp: PointwiseMLP, x: Tensor) -> Tensor:
    return _conv(mlp.project, _group_norm(mlp.norm, _conv(mlp.widen, x)).clamp(min=0))


def _group_norm(norm: GroupNorm, x: Tensor) -> Tensor:
    normal = nn.functional.group_norm(x[None], norm.num_groups, norm.weight, norm.bias, norm.eps)
    return normal[0]


def _softmax(scores: Tensor, members: Tensor) -> Tensor:
    """Over the members of (C, M, K); over all where a sample has none."""
    members = members | ~members.any(1, keepdim=True)
    return scores.masked_fill(~members, -torch.inf).softmax(2)
