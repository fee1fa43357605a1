"""Grouping, interpolation and attention in a flat batch: features (n, c), rows (m, nsample).

A row of -1 stands for a neighbor that does not exist, whose features are zero. Plain torch on rows
of c values, which needs no kernel of its own, except for the interpolation.
"""

import torch
from torch import Tensor

from farpoint_ops.compat.pointops.queries import knn_query
from farpoint_ops.interpolate import interpolate


def grouping2(features: Tensor, idx: Tensor) -> Tensor:
    """(n, c), (m, nsample) -> (m, nsample, c)."""
    if features.dim() != 2:
        raise ValueError(f"features: expected (n, c), got shape {tuple(features.shape)}")
    rows = features.index_select(0, idx.clamp(min=0).flatten())
    return rows.view(*idx.shape, features.size(1)).masked_fill((idx < 0).unsqueeze(-1), 0)


def group_around(
    idx: Tensor, feat: Tensor, xyz: Tensor, new_xyz: Tensor | None, with_xyz: bool
) -> Tensor:
    """Features (m, nsample, c), behind coordinates relative to the center (m, nsample, 3)."""
    grouped = grouping2(feat, idx)
    if not with_xyz:
        return grouped
    relative = grouping2(xyz, idx) - (xyz if new_xyz is None else new_xyz).unsqueeze(1)
    relative = relative.masked_fill((idx < 0).unsqueeze(-1), 0)
    return torch.cat([relative, grouped], -1)


def grouping(
    idx: Tensor,
    feat: Tensor,
    xyz: Tensor | None = None,
    new_xyz: Tensor | None = None,
    with_xyz: bool = False,
) -> Tensor:
    """(m, nsample), (n, c), (n, 3), (m, 3) -> (m, nsample, c), or 3 + c with coordinates.

    Of two arguments the features come first, as in `grouping2`.
    """
    if xyz is None:
        features, rows = idx, feat
        return grouping2(features, rows)
    return group_around(idx, feat, xyz, new_xyz, with_xyz)


def interpolation2(
    xyz: Tensor, new_xyz: Tensor, feat: Tensor, offset: Tensor, new_offset: Tensor, k: int = 3
) -> Tensor:
    """(m, 3), (n, 3), (m, c), (B,), (B,) -> (n, c): means of the k nearest by inverse distance."""
    idx, distance = knn_query(k, xyz, offset, new_xyz, new_offset)
    weight = (distance + 1e-8).reciprocal().masked_fill(idx < 0, 0)
    weight = weight / weight.sum(1, keepdim=True)
    mean = interpolate(feat.t()[None], idx.clamp(min=0)[None], weight[None])
    return mean[0].t().contiguous()


def subtraction(input1: Tensor, input2: Tensor, idx: Tensor) -> Tensor:
    """(n, c), (n, c), (n, nsample) -> (n, nsample, c): each minus its neighbors."""
    return input1.unsqueeze(1) - grouping2(input2, idx)


def aggregation(input: Tensor, position: Tensor, weight: Tensor, idx: Tensor) -> Tensor:  # noqa: A002
    """(n, c), (n, nsample, c), (n, nsample, w), (n, nsample) -> (n, c).

    The sum over the neighbors of their features plus position, times the weight of channel modulo
    w.
    """
    values = (grouping2(input, idx) + position).view(*idx.shape, -1, weight.size(-1))
    return (values * weight.unsqueeze(-2)).sum(1).flatten(1)


def attention_relation_step(
    query: Tensor, key: Tensor, weight: Tensor, index_target: Tensor, index_refer: Tensor
) -> Tensor:
    """(n, g, c), (n, g, c), (c,), (m,), (m,) -> (m, g): weighted products of queries and keys."""
    targets, refers = query.index_select(0, index_target), key.index_select(0, index_refer)
    return (targets * refers * weight).sum(-1)


def attention_fusion_step(
    weight: Tensor, value: Tensor, index_target: Tensor, index_refer: Tensor
) -> Tensor:
    """(m, g), (n, g, c), (m,), (m,) -> (n, g, c): weighted values, summed at their targets."""
    weighted = weight.unsqueeze(-1) * value.index_select(0, index_refer)
    return torch.zeros_like(value).index_add(0, index_target, weighted)
