"""Exact farthest point sampling of a ragged batch: flat points and offsets."""

from itertools import accumulate, pairwise
from typing import Literal, overload

import torch
from torch import Tensor

from farpoint_ops._arguments import (
    Integers,
    check_count,
    check_start,
    check_tensor,
    integer,
    to_device,
    to_list,
)


@overload
def furthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    samples: int | Integers,
    *,
    start: int | Integers = 0,
    return_distances: Literal[False] = False,
) -> Tensor: ...


@overload
def furthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    samples: int | Integers,
    *,
    start: int | Integers = 0,
    return_distances: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def furthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    samples: int | Integers,
    *,
    start: int | Integers = 0,
    return_distances: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Pick points of every cloud of a flat batch, as `furthest_point_sample` does for each.

    Args:
        xyz: Coordinates (N, 3) of all clouds, one behind the other; float32, float16 or bfloat16.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].
        samples: Points to sample, one number for all clouds or one for each.
        start: Row of the first sample, counted from the first row of its own cloud; one for all
            clouds or one for each.
        return_distances: Also return the covering radius after each sample.

    Returns:
        Rows of `xyz`, int32 (sum of samples,), cloud after cloud; with `return_distances` also
        float32 of the same shape, as for `furthest_point_sample`. Neither carries a gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: The offsets do not rise from 0 to N, a cloud is empty, or its number of
            samples is not in 1..its points.
        IndexError: A start is not a row of its cloud.

    `offsets`, `samples` and `start` decide the launch, so they are read on the host: tensors on a
    GPU work, and make the call wait for them.
    """
    bounds = to_list("offsets", offsets)
    sizes = _sizes(bounds, xyz)
    counts = _for_each("samples", samples, len(sizes))
    _check_samples(counts, sizes)
    starts = _for_each("start", start, len(sizes))
    check_start(starts, sizes)
    slots = list(accumulate(counts, initial=0))
    indices, distances = torch.ops.farpoint.furthest_point_sample_ragged(
        xyz,
        to_device(bounds, xyz),
        to_device(slots, xyz),
        to_device(starts, xyz) if any(starts) else None,
        slots[-1],
        max(sizes, default=0),
        max(counts, default=0),
        return_distances,
    )
    return (indices, distances) if return_distances else indices


def _sizes(bounds: list[int], xyz: Tensor) -> list[int]:
    """Points of each cloud."""
    check_tensor("xyz", xyz)
    if xyz.dim() != 2:
        raise ValueError(f"xyz: expected shape (N, 3), got {list(xyz.shape)}")
    total = xyz.size(0)
    if not bounds or bounds[0] != 0 or bounds[-1] != total:
        raise ValueError(f"offsets: expected B + 1 offsets from 0 to {total}, got {bounds}")
    for b, (begin, end) in enumerate(pairwise(bounds)):
        if begin >= end:
            raise ValueError(
                f"offsets: expected at least one point in a cloud, got {begin}..{end} for cloud {b}"
            )
    return [end - begin for begin, end in pairwise(bounds)]


def _for_each(name: str, values: int | Integers, clouds: int) -> list[int]:
    if isinstance(values, Tensor) or hasattr(values, "__iter__"):
        numbers = to_list(name, values)
        check_count(name, numbers, clouds)
        return numbers
    return [integer(name, values)] * clouds


def _check_samples(counts: list[int], sizes: list[int]) -> None:
    for b, (m, size) in enumerate(zip(counts, sizes, strict=True)):
        if not 1 <= m <= size:
            raise ValueError(
                f"samples: expected 1 <= samples <= {size}, the points of cloud {b}, got {m}"
            )
