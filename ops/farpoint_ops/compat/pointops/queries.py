"""Sampling and k nearest neighbors in a flat batch (n, 3) with offsets.

Indices are int32 rows of the flat batch, -1 where a cloud has too few points. Indices and
distances carry no gradient.
"""

import torch
from torch import Tensor

from farpoint_ops.compat.pointops._offsets import check_ends, starts_and_end
from farpoint_ops.compat.pointops._search import MISSING_DISTANCE, Found
from farpoint_ops.fps_ragged import farthest_point_sample_ragged


def farthest_point_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    """(n, 3), (B,), (B,) -> the rows of the samples of each cloud, (new_offset[-1],)."""
    samples = starts_and_end("new_offset", new_offset).diff()
    return farthest_point_sample_ragged(xyz, starts_and_end("offset", offset), samples)


def knn_query(
    nsample: int,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of the nearest points, (m, nsample).

    Nearest first, and only from the cloud of the query; the batch queries itself where `new_xyz`
    is None.
    """
    if new_xyz is None or new_offset is None:
        new_xyz, new_offset = xyz, offset
    bounds = starts_and_end("offset", offset)
    query_bounds = starts_and_end("new_offset", new_offset)
    if len(new_offset) != len(offset):
        raise ValueError(f"new_offset: expected {len(offset)} clouds, got {len(new_offset)}")
    check_ends("offset", offset, xyz)
    check_ends("new_offset", new_offset, new_xyz)
    squared, idx = torch.ops.farpoint.knn_ragged(
        xyz.detach(), new_xyz.detach(), nsample, bounds, query_bounds
    )
    return idx, squared.sqrt().masked_fill(idx < 0, MISSING_DISTANCE)


def knnquery(
    nsample: int, xyz: Tensor, new_xyz: Tensor | None, offset: Tensor, new_offset: Tensor
) -> Found:
    """`knn_query` in Point Transformer's order of arguments, the queries before the offsets."""
    return knn_query(nsample, xyz, offset, new_xyz, new_offset)
