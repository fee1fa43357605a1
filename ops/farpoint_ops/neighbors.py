"""Exact k nearest neighbors, ball query and nearest sample, equal on every device.

A squared distance is ``fma(dz, dz, fma(dy, dy, dx * dx))`` of the
differences, in float64 for float64 coordinates and in float32 for all others (float16 and bfloat16
are widened first; of two dtypes the wider one decides), and the lowest row wins a tie. A point
with a NaN or an infinity is at infinite distance from every point and comes after all finite ones.
"""

import torch
from torch import Tensor

from farpoint_ops._arguments import (
    Integers,
    Numbers,
    check_lengths,
    check_tensor,
    integer,
    numbers,
)


def knn(
    xyz: Tensor, queries: Tensor, k: int, *, lengths: Integers | None = None
) -> tuple[Tensor, Tensor]:
    """Finds the k nearest points of each query, nearest first.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64.
        queries: Coordinates (B, M, 3), likewise; the two may differ in dtype.
        k: Number of neighbors of each query; may exceed the points of a cloud.
        lengths: Points of each cloud (B,), at least 1; rows after them are padding and not read.
            By default N.

    Returns:
        Rows of `xyz`, int32 (B, M, k), and squared distances (B, M, k): float32, or float64 for
        float64 coordinates, which are searched by brute force. If a cloud has fewer than k points,
        the rest repeats the nearest row at infinite distance, so that a maximum over the group is
        unchanged and an inverse distance is zero. The distances have a gradient with respect to
        both inputs; it is zero for infinite distances.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: Shapes or devices do not match, k is not positive, or a length is not in 1..N.
    """
    check_tensor("xyz", xyz)
    check_tensor("queries", queries)
    neighbors = integer("k", k)
    sizes = check_lengths("lengths", lengths, xyz, low=1)
    squared, idx = torch.ops.farpoint.knn(xyz, queries, neighbors, sizes)
    return idx, squared


def ball_query(
    xyz: Tensor,
    centers: Tensor,
    radius: Numbers,
    k: int,
    *,
    min_radius: Numbers = 0.0,
    lengths: Integers | None = None,
) -> tuple[Tensor, Tensor]:
    """Finds up to k points within a radius of each center, in the order of the rows.

    Qi, Yi, Su and Guibas, "PointNet++", NeurIPS 2017, padded like its code. With `min_radius` it
    is the dilated query of Yang, Sun, Liu and Jia, "3DSSD", CVPR 2020.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64, which is searched by
            brute force.
        centers: Coordinates (B, M, 3), likewise; the two may differ in dtype.
        radius: Radius of the ball, in the unit of `xyz`, one for all clouds or one for each,
            rounded to the type of the distances; a point at exactly that distance is outside. A
            tensor changes no compiled graph; on a GPU it is not read on the host, and a wrong one
            is a device assertion.
        k: Maximum number of points of each center; may exceed N.
        min_radius: Excludes nearer points, except those that coincide with the center; rounded
            like `radius`. A point at exactly that distance is included.
        lengths: Points of each cloud (B,), at least 1, as for `knn`.

    Returns:
        Rows of `xyz`, int32 (B, M, k), ascending and padded with the first one, or with row 0 if
        the ball is empty; and the number of rows found, int32 (B, M), 0..k. Neither has a
        gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: Shapes or devices do not match, `radius` or `k` is not positive, `min_radius` is
            not in 0..radius, or a length is not in 1..N.
    """
    check_tensor("xyz", xyz)
    check_tensor("centers", centers)
    sizes = check_lengths("lengths", lengths, xyz, low=1)
    shells, numeric = None, isinstance(radius, int | float) and isinstance(min_radius, int | float)
    # In a graph of torch.compile a number would be a constant; torch.export says so of one anyway.
    if torch.compiler.is_dynamo_compiling() or not numeric:
        wide = centers if centers.dtype == torch.float64 else xyz
        inner = numbers("min_radius", min_radius, wide, xyz.size(0))
        outer = numbers("radius", radius, wide, xyz.size(0), positive=True)
        shells, radius, min_radius = torch.stack([inner, outer], 1), 0.0, 0.0
    idx, counts = torch.ops.farpoint.ball_query(
        xyz, centers, radius, integer("k", k), sizes, min_radius, shells
    )
    return idx, counts


def nearest_sample(
    xyz: Tensor,
    samples: Tensor,
    *,
    lengths: Integers | None = None,
    sample_lengths: Integers | None = None,
) -> tuple[Tensor, Tensor]:
    """Finds the nearest sample of each point; the points of a sample are its collapsed set.

    He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64, which is searched by
            brute force.
        samples: Coordinates (B, M, 3), likewise; the two may differ in dtype.
        lengths: Points of each cloud (B,), 0..N; rows after them are padding and not read.
        sample_lengths: Samples of each cloud (B,), 0..M, likewise.

    Returns:
        Rows of `samples`, int32 (B, N), and squared distances (B, N), float64 for float64
        coordinates, else float32: -1 and infinity for padding and for points at no finite
        distance from a sample. Neither has a gradient; ``knn(samples, xyz, 1)`` has one.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: Shapes or devices do not match, or a length is out of range.
    """
    check_tensor("xyz", xyz)
    check_tensor("samples", samples)
    assignment, squared = torch.ops.farpoint.nearest_sample(
        xyz,
        samples,
        check_lengths("lengths", lengths, xyz, low=0),
        check_lengths("sample_lengths", sample_lengths, samples, low=0),
    )
    return assignment, squared


def count_points(assignment: Tensor, num_samples: int) -> Tensor:
    """Counts the points assigned to each sample.

    Args:
        assignment: Samples (B, N), int32 or int64, as `nearest_sample` returns them; -1 is not
            counted.
        num_samples: Number of samples of each cloud (m).

    Returns:
        int32 (B, m), without a gradient.

    Raises:
        TypeError: `assignment` is not int32 or int64.
        ValueError: `assignment` is not (B, N), or m is negative.
        IndexError: A sample is outside -1..m-1 (on a GPU a device assertion).
    """
    check_tensor("assignment", assignment)
    counts: Tensor = torch.ops.farpoint.count_points(
        assignment, integer("num_samples", num_samples)
    )
    return counts
