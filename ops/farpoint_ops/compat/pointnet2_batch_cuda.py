"""Drop-in for ``pointnet2_batch_cuda``, the extension of OpenPCDet, PointNeXt and PointRCNN.

Change ``from . import pointnet2_batch_cuda as pointnet2`` (in PointNeXt and older code
``pointnet2_cuda``) to ``from farpoint_ops.compat import pointnet2_batch_cuda as pointnet2``. Each
function writes to its last tensor, which the caller made, and returns 1. The sizes in front are
those of the tensors and are not read; gradients are added to what is there.
"""

from torch import Tensor

from farpoint_ops.compat import pointnet2_ext as ext

__all__ = [
    "ball_query_wrapper",
    "farthest_point_sampling_wrapper",
    "furthest_point_sampling_wrapper",
    "gather_points_grad_wrapper",
    "gather_points_wrapper",
    "group_points_grad_wrapper",
    "group_points_wrapper",
    "three_interpolate_grad_wrapper",
    "three_interpolate_wrapper",
    "three_nn_wrapper",
]


def furthest_point_sampling_wrapper(
    b: int, n: int, m: int, points: Tensor, temp: Tensor, idx: Tensor
) -> int:
    """(B, N, 3), anything -> `idx` (B, m)."""
    del b, n, temp
    idx.copy_(ext.furthest_point_sampling(points, m))
    return 1


farthest_point_sampling_wrapper = furthest_point_sampling_wrapper


def gather_points_wrapper(
    b: int, c: int, n: int, npoints: int, points: Tensor, idx: Tensor, out: Tensor
) -> int:
    """(B, C, N), (B, npoints) -> `out` (B, C, npoints)."""
    del b, c, n, npoints
    out.copy_(ext.gather_points(points, idx))
    return 1


def gather_points_grad_wrapper(
    b: int, c: int, n: int, npoints: int, grad_out: Tensor, idx: Tensor, grad_points: Tensor
) -> int:
    """(B, C, npoints), (B, npoints) -> added to `grad_points` (B, C, N)."""
    del b, c, npoints
    grad_points += ext.gather_points_grad(grad_out, idx, n)
    return 1


def group_points_wrapper(
    b: int, c: int, n: int, npoints: int, nsample: int, points: Tensor, idx: Tensor, out: Tensor
) -> int:
    """(B, C, N), (B, npoints, nsample) -> `out` (B, C, npoints, nsample)."""
    del b, c, n, npoints, nsample
    out.copy_(ext.group_points(points, idx))
    return 1


def group_points_grad_wrapper(
    b: int,
    c: int,
    n: int,
    npoints: int,
    nsample: int,
    grad_out: Tensor,
    idx: Tensor,
    grad_points: Tensor,
) -> int:
    """(B, C, npoints, nsample), (B, npoints, nsample) -> added to `grad_points` (B, C, N)."""
    del b, c, npoints, nsample
    grad_points += ext.group_points_grad(grad_out, idx, n)
    return 1


def ball_query_wrapper(
    b: int,
    n: int,
    m: int,
    radius: float,
    nsample: int,
    new_xyz: Tensor,
    xyz: Tensor,
    idx: Tensor,
) -> int:
    """(B, m, 3), (B, N, 3) -> `idx` (B, m, nsample); the rows of an empty ball are 0."""
    del b, n, m
    idx.copy_(ext.ball_query(new_xyz, xyz, radius, nsample))
    return 1


def three_nn_wrapper(
    b: int, n: int, m: int, unknown: Tensor, known: Tensor, dist2: Tensor, idx: Tensor
) -> int:
    """(B, n, 3), (B, m, 3) -> `dist2`, squared distances, and `idx` (B, n, 3)."""
    del b, n, m
    squared, rows = ext.three_nn(unknown, known)
    dist2.copy_(squared)
    idx.copy_(rows)
    return 1


def three_interpolate_wrapper(
    b: int, c: int, m: int, n: int, points: Tensor, idx: Tensor, weight: Tensor, out: Tensor
) -> int:
    """(B, C, m), (B, n, 3), (B, n, 3) -> `out` (B, C, n)."""
    del b, c, m, n
    out.copy_(ext.three_interpolate(points, idx, weight))
    return 1


def three_interpolate_grad_wrapper(
    b: int,
    c: int,
    n: int,
    m: int,
    grad_out: Tensor,
    idx: Tensor,
    weight: Tensor,
    grad_points: Tensor,
) -> int:
    """(B, C, n), (B, n, 3), (B, n, 3) -> added to `grad_points` (B, C, m)."""
    del b, c, n
    grad_points += ext.three_interpolate_grad(grad_out, idx, weight, m)
    return 1
