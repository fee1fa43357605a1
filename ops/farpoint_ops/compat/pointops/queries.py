"""Sampling and k nearest neighbors in a flat batch (n, 3) with offsets.

Indices are int32 rows of the flat batch, -1 where a cloud has too few points. Indices and
distances carry no gradient.
"""

from itertools import pairwise

from torch import Tensor

from farpoint_ops.compat.pointops._offsets import bounds
from farpoint_ops.compat.pointops._search import Found, search_each_cloud
from farpoint_ops.fps_ragged import furthest_point_sample_ragged
from farpoint_ops.neighbors import knn


def farthest_point_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    """(n, 3), (B,), (B,) -> the rows of the samples of each cloud, (new_offset[-1],)."""
    samples = [end - begin for begin, end in pairwise(bounds("new_offset", new_offset))]
    return furthest_point_sample_ragged(xyz, bounds("offset", offset), samples)


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

    def search(cloud: Tensor, queries: Tensor) -> Found:
        idx, squared = knn(cloud[None], queries[None], min(nsample, len(cloud)))
        return idx[0], squared[0].sqrt()

    return search_each_cloud(search, nsample, xyz, offset, new_xyz, new_offset)


def knnquery(
    nsample: int, xyz: Tensor, new_xyz: Tensor | None, offset: Tensor, new_offset: Tensor
) -> Found:
    """`knn_query` in Point Transformer's order of arguments, the queries before the offsets."""
    return knn_query(nsample, xyz, offset, new_xyz, new_offset)
