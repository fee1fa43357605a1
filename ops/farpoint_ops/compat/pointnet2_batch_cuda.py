"""Drop-in for ``pointnet2_batch_cuda``, the extension of OpenPCDet, PointNeXt and PointRCNN.

Change ``from . import pointnet2_batch_cuda as pointnet2`` (in PointNeXt and older code
``pointnet2_cuda``) to ``from farpoint_ops.compat import pointnet2_batch_cuda as pointnet2``. Each
function writes to its last tensors, which the caller made, and returns 1. The sizes in front are
those of the tensors; gradients are added to what is there. Arguments are positional, as in an
extension.
"""

from collections.abc import Callable
from typing import Any

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


def _copied(call: Callable[..., list[Tensor]], outputs: int = 1) -> Callable[..., int]:
    """A function whose last arguments take what `call` returns for the others."""

    def wrapper(*arguments: Any) -> int:
        targets = arguments[-outputs:]
        for target, value in zip(targets, call(*arguments[:-outputs]), strict=True):
            target.copy_(value)
        return 1

    return wrapper


def _added(call: Callable[..., Tensor]) -> Callable[..., int]:
    """Likewise, where the last argument is a sum."""

    def wrapper(*arguments: Any) -> int:
        arguments[-1].add_(call(*arguments[:-1]))
        return 1

    return wrapper


# (b, n, m, points, temp) -> rows (b, m)
furthest_point_sampling_wrapper = _copied(
    lambda _b, _n, m, points, _temp: [ext.furthest_point_sampling(points, m)]
)
farthest_point_sampling_wrapper = furthest_point_sampling_wrapper
# (b, c, n, npoints, points, idx) -> (b, c, npoints)
gather_points_wrapper = _copied(
    lambda _b, _c, _n, _npoints, points, idx: [ext.gather_points(points, idx)]
)
gather_points_grad_wrapper = _added(
    lambda _b, _c, n, _npoints, grad_out, idx: ext.gather_points_grad(grad_out, idx, n)
)
# (b, c, n, npoints, nsample, points, idx) -> (b, c, npoints, nsample)
group_points_wrapper = _copied(
    lambda _b, _c, _n, _npoints, _nsample, points, idx: [ext.group_points(points, idx)]
)
group_points_grad_wrapper = _added(
    lambda _b, _c, n, _npoints, _nsample, grad_out, idx: ext.group_points_grad(grad_out, idx, n)
)
# (b, n, m, radius, nsample, new_xyz, xyz) -> rows (b, m, nsample), 0 in an empty ball
ball_query_wrapper = _copied(
    lambda _b, _n, _m, radius, nsample, new_xyz, xyz: [
        ext.ball_query(new_xyz, xyz, radius, nsample)
    ]
)
# (b, n, m, unknown, known) -> squared distances and rows (b, n, 3)
three_nn_wrapper = _copied(lambda _b, _n, _m, unknown, known: ext.three_nn(unknown, known), 2)
# (b, c, m, n, points, idx, weight) -> (b, c, n)
three_interpolate_wrapper = _copied(
    lambda _b, _c, _m, _n, points, idx, weight: [ext.three_interpolate(points, idx, weight)]
)
three_interpolate_grad_wrapper = _added(
    lambda _b, _c, _n, m, grad_out, idx, weight: ext.three_interpolate_grad(
        grad_out, idx, weight, m
    )
)
