"""Neighbor searches in a flat batch with offsets, cloud by cloud."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops.compat.pointops._offsets import split

# What the originals report as the distance of a neighbor that does not exist.
MISSING_DISTANCE = 1e5

Found = tuple[Tensor, Tensor]


def search_each_cloud(
    search: Callable[[Tensor, Tensor], Found],
    nsample: int,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None,
    new_offset: Tensor | None,
) -> Found:
    """Rows of `xyz`, int32 (m, nsample), and distances, both without a gradient.

    Args:
        search: Takes a cloud (n, 3) and queries (m, 3); returns rows of the cloud, -1 where there
            is none, and distances, both (m, at most nsample).
        nsample: Places for each query; -1 fills those left.
        xyz: The flat batch, whose clouds end at `offset`.
        offset: The ends of its clouds.
        new_xyz: Queries, whose clouds end at `new_offset`; the batch itself where None.
        new_offset: The ends of their clouds.
    """
    if new_xyz is None or new_offset is None:
        new_xyz, new_offset = xyz, offset
    clouds = split(xyz.detach(), "offset", offset)
    queries = split(new_xyz.detach(), "new_offset", new_offset)
    if len(clouds) != len(queries):
        raise ValueError(f"new_offset: expected {len(clouds)} clouds, got {len(queries)}")
    found, first = [_nothing(xyz, 0, nsample)], 0
    for cloud, points in zip(clouds, queries, strict=True):
        usable = len(cloud) > 0 and len(points) > 0
        idx, distance = search(cloud, points) if usable else _nothing(xyz, len(points), 0)
        places = (0, nsample - idx.size(1))
        rows = pad(torch.where(idx < 0, -1, idx + first), places, value=-1)
        found.append((rows.int(), pad(distance, places, value=MISSING_DISTANCE)))
        first += len(cloud)
    idx, distance = (torch.cat(parts) for parts in zip(*found, strict=True))
    return idx, distance


def _nothing(xyz: Tensor, queries: int, places: int) -> Found:
    shape = (queries, places)
    return xyz.new_empty(shape, dtype=torch.int32), xyz.new_empty(shape, dtype=torch.float32)
