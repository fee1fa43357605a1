"""Drop-in for ``pointnet2_ops._ext``, the extension below Pointnet2_PyTorch's functions.

Change ``import pointnet2_ops._ext as _ext`` to
``from farpoint_ops.compat import pointnet2_ext as _ext``. Features are (B, C, N), coordinates
(B, N, 3), indices int32; nothing here is meant to have a gradient, as in the original.
"""

import torch
from torch import Tensor

from farpoint_ops import fps, gather, neighbors
from farpoint_ops.interpolate import interpolate

__all__ = [
    "ball_query",
    "furthest_point_sampling",
    "gather_points",
    "gather_points_grad",
    "group_points",
    "group_points_grad",
    "three_interpolate",
    "three_interpolate_grad",
    "three_nn",
]


def furthest_point_sampling(points: Tensor, nsamples: int) -> Tensor:
    """(B, N, 3) -> rows of the samples (B, nsamples)."""
    return fps.farthest_point_sample(points.detach(), nsamples)


def gather_points(points: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, m) -> (B, C, m)."""
    return gather.gather_points(points.detach(), idx)


def gather_points_grad(grad_out: Tensor, idx: Tensor, n: int) -> Tensor:
    """(B, C, m), (B, m) -> (B, C, n)."""
    grad: Tensor = torch.ops.farpoint.scatter_points(grad_out.detach(), idx, n)
    return grad


def group_points(points: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, m, k) -> (B, C, m, k)."""
    return gather.group_points(points.detach(), idx)


def group_points_grad(grad_out: Tensor, idx: Tensor, n: int) -> Tensor:
    """(B, C, m, k), (B, m, k) -> (B, C, n)."""
    return gather_points_grad(grad_out.flatten(2), idx.flatten(1), n)


def ball_query(new_xyz: Tensor, xyz: Tensor, radius: float, nsample: int) -> Tensor:
    """(B, m, 3), (B, N, 3) -> rows (B, m, nsample), the first repeated, 0 in an empty ball."""
    return neighbors.ball_query(xyz.detach(), new_xyz.detach(), radius, nsample)[0]


def three_nn(unknown: Tensor, known: Tensor) -> list[Tensor]:
    """(B, n, 3), (B, m, 3) -> squared distances and rows of the three nearest, (B, n, 3)."""
    idx, squared = neighbors.knn(known.detach(), unknown.detach(), 3)
    return [squared, idx]


def three_interpolate(points: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, m), (B, n, 3), (B, n, 3) -> (B, C, n)."""
    return interpolate(points.detach(), idx, weight.detach())


def three_interpolate_grad(grad_out: Tensor, idx: Tensor, weight: Tensor, m: int) -> Tensor:
    """(B, C, n), (B, n, 3), (B, n, 3) -> (B, C, m)."""
    op = torch.ops.farpoint.interpolate_scatter
    grad: Tensor = op(grad_out.detach(), idx, weight.detach(), m)
    return grad
