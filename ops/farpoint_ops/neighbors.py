"""Exact k nearest neighbors, ball query and nearest sample.

One contract on every device. A squared distance is ``fma(dz, dz, fma(dy, dy, dx * dx))`` of the
differences, in float64 for float64 coordinates and in float32 for all others (float16 and bfloat16
are widened first), and the lowest row wins a tie. A point with a NaN or an infinity is infinitely
far from everything and comes behind every finite one.
"""

import torch
from torch import Tensor

from farpoint_ops._arguments import Integers, check_lengths, check_tensor, integer


def knn(
    xyz: Tensor, queries: Tensor, k: int, *, lengths: Integers | None = None
) -> tuple[Tensor, Tensor]:
    """The k points of each cloud nearest to each query, nearest first.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64.
        queries: Coordinates (B, M, 3) in the dtype of `xyz`.
        k: Neighbors of each query; may exceed the points of a cloud.
        lengths: Points of each cloud (B,), at least 1; rows behind them are padding and never
            read. All of the N rows when None.

    Returns:
        Rows of `xyz`, int32 (B, M, k), and squared distances (B, M, k): float32, or float64 for
        float64 coordinates, which are compared one by one. In places beyond the points of the
        cloud the nearest row stands again, at an infinite distance: no neighbor is new there, a
        maximum over a group stays as it is, and an inverse distance is zero. The distances have
        a gradient with respect to both inputs; where one is infinite it is zero.

    Raises:
        TypeError: A dtype is not one of those above, or the two differ.
        ValueError: Shapes or devices do not fit, k is not positive, or a length is not in 1..N.
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
    radius: float,
    k: int,
    *,
    min_radius: float = 0.0,
    lengths: Integers | None = None,
) -> tuple[Tensor, Tensor]:
    """Up to k points of each cloud nearer than `radius` to each center: those of the lowest rows.

    Qi, Yi, Su and Guibas, "PointNet++", NeurIPS 2017; the padding is that of its code. With
    `min_radius` it is the dilated query of Yang, Sun, Liu and Jia, "3DSSD", CVPR 2020.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64, whose points are
            compared one by one.
        centers: Coordinates (B, M, 3) in the dtype of `xyz`.
        radius: Of the ball, in the unit of `xyz`, rounded to the type of distances; a point at
            that distance is outside.
        k: Places for each center; may exceed N.
        min_radius: Points nearer than this, rounded likewise, are left out, save those that
            coincide with the center; a point at that distance is inside.
        lengths: Points of each cloud (B,), at least 1, as for `knn`.

    Returns:
        Rows of `xyz`, int32 (B, M, k), ascending, with the first repeated in the places left, or
        row 0 in all of them where the ball is empty; and the number of rows found, int32 (B, M),
        0..k. Neither carries a gradient.

    Raises:
        TypeError: A dtype is not one of those above, or the two differ.
        ValueError: Shapes or devices do not fit, `radius` or `k` is not positive, `min_radius` is
            not in 0..radius, or a length is not in 1..N.
    """
    check_tensor("xyz", xyz)
    check_tensor("centers", centers)
    sizes = check_lengths("lengths", lengths, xyz, low=1)
    idx, counts = torch.ops.farpoint.ball_query(
        xyz, centers, float(radius), integer("k", k), sizes, float(min_radius)
    )
    return idx, counts


def nearest_sample(
    xyz: Tensor,
    samples: Tensor,
    *,
    lengths: Integers | None = None,
    sample_lengths: Integers | None = None,
) -> tuple[Tensor, Tensor]:
    """The sample nearest to each point: points that share one are its collapsed set.

    He, Ren, Tang, Zhang, Xue and Fu, "Density-preserving Deep Point Cloud Compression", CVPR 2022.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16, bfloat16 or float64, whose points are
            compared one by one.
        samples: Coordinates (B, M, 3) in the dtype of `xyz`.
        lengths: Points of each cloud (B,), 0..N; rows behind them are padding and never read.
        sample_lengths: Samples of each cloud (B,), 0..M, likewise.

    Returns:
        Rows of `samples`, int32 (B, N), and squared distances (B, N), float64 for float64
        coordinates and float32 for others: -1 and infinity for
        padding and for points that no sample is a finite distance from, such as those that are
        not finite themselves, or all of a cloud without samples. Neither carries a gradient;
        ``knn(samples, xyz, 1)`` has one.

    Raises:
        TypeError: A dtype is not one of those above, or the two differ.
        ValueError: Shapes or devices do not fit, or a length is out of its range.
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
    """Number of points assigned to each sample: the sizes of the collapsed sets.

    Args:
        assignment: Samples (B, N), int32 or int64, as `nearest_sample` returns them; -1 is not
            counted.
        num_samples: Samples of each cloud (m).

    Returns:
        int32 (B, m), without a gradient.

    Raises:
        TypeError: `assignment` is not int32 or int64.
        ValueError: `assignment` is not (B, N), or m is negative.
        IndexError: A sample is outside -1..m-1 (on a GPU, which is not waited for, a device
            assertion).
    """
    check_tensor("assignment", assignment)
    counts: Tensor = torch.ops.farpoint.count_points(
        assignment, integer("num_samples", num_samples)
    )
    return counts
