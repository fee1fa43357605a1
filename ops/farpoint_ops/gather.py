"""Gather, group and interpolation of channel-first features, with derivatives of any order."""

import torch
from torch import Tensor

from farpoint_ops._arguments import check_tensor


def gather_points(features: Tensor, idx: Tensor) -> Tensor:
    """Gathers columns of `features`: ``out[b, c, j] = features[b, c, idx[b, j]]``.

    Args:
        features: (B, C, N), any dtype of at most 8 bytes; floating point has a gradient.
        idx: Columns (B, M), int32 or int64.

    Returns:
        (B, C, M) in the dtype of `features`. Its gradient is a scatter-add, which sums repeated
        indices; float16 and bfloat16 are summed in float32.

    Raises:
        TypeError: `idx` is not int32 or int64.
        ValueError: Shapes or devices do not match.
        IndexError: An index is outside 0..N-1 (on a GPU a device assertion).
    """
    check_tensor("features", features)
    check_tensor("idx", idx)
    gathered: Tensor = torch.ops.farpoint.gather_points(features, idx)
    return gathered


def group_points(features: Tensor, idx: Tensor) -> Tensor:
    """Gathers features of neighbors: ``out[b, c, j, k] = features[b, c, idx[b, j, k]]``.

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


def interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """Computes weighted sums of columns of `features`.

    ``out[b, c, n]`` is the sum over k of ``weight[b, n, k] * features[b, c, idx[b, n, k]]``.

    With the three nearest samples and normalized inverse distances as weights this is the feature
    propagation of Qi, Yi, Su and Guibas, "PointNet++", NeurIPS 2017.

    Args:
        features: (B, C, M), floating point.
        idx: Columns of `features` (B, N, K), int32 or int64.
        weight: (B, N, K), converted to the dtype of `features`.

    Returns:
        (B, C, N) in the dtype of `features`; float16 and bfloat16 are summed in float32. It has
        derivatives of any order with respect to `features` and `weight`, and allocates no
        (B, C, N, K).

    Raises:
        TypeError: `features` is not floating point, or `idx` not int32 or int64.
        ValueError: Shapes or devices do not match.
        IndexError: An index is outside 0..M-1 (on a GPU a device assertion).
    """
    check_tensor("features", features)
    check_tensor("idx", idx)
    check_tensor("weight", weight)
    summed: Tensor = torch.ops.farpoint.interpolate(features, idx, weight.to(features.dtype))
    return summed
