"""The encoder's equations in plain torch, cloud by cloud: what it is tested against.

He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022,
section 3.2: all distances at once, `torch.unique` to count, indexing to gather, and farthest point
sampling anew in every stage. Written from the paper, on the weights of a `DensityEncoder`.
"""

import math
from typing import NamedTuple, cast

import torch
from tests.support.brute_force import furthest_points
from torch import Tensor, nn

from farpoint_models.encoder import DensityEncoder
from farpoint_models.layers import DensityStage, GroupNorm, PointwiseMLP


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
    features = _conv(encoder.lift, columns)
    indices, counts = torch.arange(len(xyz)), torch.ones(len(xyz), dtype=torch.int64)
    stages = []
    for rate, module in zip(encoder.config.rates, encoder.stages, strict=True):
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
        features = _stage(stage, features, xyz, picks, rows, members, collapsed)
        counts = torch.zeros(m, dtype=torch.int64).index_add(0, owner, counts)
        xyz, indices = xyz[picks], indices[picks]
        stages.append(PlainStage(indices, xyz, features, counts, mean_distance))
    return stages


def _stage(
    stage: DensityStage,
    features: Tensor,
    xyz: Tensor,
    picks: Tensor,
    rows: Tensor,
    members: Tensor,
    collapsed: Tensor,
) -> Tensor:
    """Features (C, N) of all points -> (C, M) of the picked."""
    offsets = (xyz[rows] - xyz[picks][:, None]).permute(2, 0, 1)
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
