"""Exact farthest point sampling.

Eldar, Lindenbaum, Porat and Zeevi, "The Farthest Point Strategy for Progressive Image Sampling",
IEEE Transactions on Image Processing 6(9), 1997. The contract is the same, bit for bit, on every
device:

* a squared distance is ``fma(dz, dz, fma(dy, dy, dx * dx))`` in float32, and float16 and bfloat16
  coordinates are widened to float32 first;
* the next sample is the point farthest from all samples so far, the lowest index on a tie;
* no index is sampled twice, even where points coincide;
* a point with a NaN or an infinity is sampled only when no finite one is left, lowest index first,
  and moves no distance.
"""

from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from farpoint_ops._arguments import (
    Integers,
    check_lengths,
    check_start,
    check_tensor,
    integer,
    to_device,
    to_list,
)


@overload
def furthest_point_sample(
    xyz: Tensor,
    m: int,
    *,
    start: int | Integers = 0,
    lengths: Integers | None = None,
    return_distances: Literal[False] = False,
) -> Tensor: ...


@overload
def furthest_point_sample(
    xyz: Tensor,
    m: int,
    *,
    start: int | Integers = 0,
    lengths: Integers | None = None,
    return_distances: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def furthest_point_sample(
    xyz: Tensor,
    m: int,
    *,
    start: int | Integers = 0,
    lengths: Integers | None = None,
    return_distances: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Pick m points of every cloud, each the farthest from those before it.

    Args:
        xyz: Coordinates (B, N, 3); float32, float16 or bfloat16.
        m: Points to sample from each cloud.
        start: Row of the first sample, one for all clouds or one for each. Where that row is not
            finite, the first finite row of the cloud stands in.
        lengths: Points of each cloud (B,); rows behind them are padding and never read. All of
            the N rows when None.
        return_distances: Also return the covering radius after each sample.

    Returns:
        Indices, int32 (B, m). With `return_distances` also float32 (B, m), in the unit of `xyz`:
        the largest distance from a finite point of the cloud to the nearest of the samples so far;
        the last is the covering radius of the whole sample. Neither carries a gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: `xyz` is not (B, N, 3) with N > 0, m is not in 1..N, or a length not in m..N.
        IndexError: A start is not a row of its cloud.

    Lengths and starts that already live on a GPU are not checked on the host, which would wait for
    it: a bad one there stops the kernel with a device assertion, as torch's own gather does.
    """
    check_tensor("xyz", xyz)
    samples = integer("m", m)
    sizes = check_lengths("lengths", lengths, xyz, low=samples)
    indices, distances = torch.ops.farpoint.furthest_point_sample(
        xyz, samples, _starts(start, xyz), sizes, return_distances
    )
    return (indices, distances) if return_distances else indices


def _shape(xyz: Tensor) -> tuple[int, int]:
    """B and N."""
    if xyz.dim() != 3:
        raise ValueError(f"xyz: expected shape (B, N, 3), got {list(xyz.shape)}")
    if xyz.size(1) == 0:
        raise ValueError(f"xyz: expected at least one point in a cloud, got {list(xyz.shape)}")
    return xyz.size(0), xyz.size(1)


def _starts(start: int | Integers, xyz: Tensor) -> Tensor | None:
    """Int64 or int32 (B,) on the device of `xyz`; None stands for row 0 everywhere."""
    if type(start) is int and start == 0:  # nearly always, and the tests below take a microsecond
        return None
    if isinstance(start, Tensor) and start.device == xyz.device:
        return start
    batch, n = _shape(xyz)
    if isinstance(start, Tensor | Sequence):
        rows = to_list("start", start)
        check_start(rows, [n] * batch)
        return to_device(rows, xyz)
    row = integer("start", start)
    if not 0 <= row < n:
        raise IndexError(f"start: expected 0 <= start < N = {n}, got {row}")
    return None if row == 0 else xyz.new_full((batch,), row, dtype=torch.int64)
