"""Gather and group of channel-first features, differentiable any number of times."""

import torch
from torch import Tensor

from farpoint_ops._arguments import check_tensor


def gather_points(features: Tensor, idx: Tensor) -> Tensor:
    """The columns `idx` of `features`: ``out[b, c, j] = features[b, c, idx[b, j]]``.

    Args:
        features: (B, C, N), any dtype of at most 8 bytes; differentiable ones get a gradient.
        idx: Columns (B, M), int32 or int64.

    Returns:
        (B, C, M) in the dtype of `features`. Its gradient is a scatter-add, in which repeated
        indices are summed; float16 and bfloat16 are summed in float32.

    Raises:
        TypeError: `idx` is not int32 or int64.
        ValueError: Shapes or devices do not fit.
        IndexError: An index is outside 0..N-1 (on a GPU, which is not waited for,
            a device assertion).
    """
    check_tensor("features", features)
    check_tensor("idx", idx)
    gathered: Tensor = torch.ops.farpoint.gather_points(features, idx)
    return gathered


def group_points(features: Tensor, idx: Tensor) -> Tensor:
    """Features of the K neighbors of M points: ``out[b, c, j, k] = features[b, c, idx[b, j, k]]``.

    Args:
        features: (B, C, N), as for `gather_points`.
        idx: Columns (B, M, K), int32 or int64.

    Returns:
        (B, C, M, K) in the dtype of `features`; gradient and errors as for `gather_points`.
    """
    check_tensor("features", features)
    check_tensor("idx", idx)
    grouped: Tensor = torch.ops.farpoint.group_points(features, idx)
    return grouped
