"""Offsets (B,): the end of each cloud in a flat batch, without the leading zero."""

from itertools import pairwise

import torch
from torch import Tensor

from farpoint_ops._arguments import check_tensor, to_list


def bounds(name: str, offset: Tensor) -> list[int]:
    """0 and the ends, on the host: this waits for the device they are on."""
    return [0, *to_list(name, offset)]


def check_ends(name: str, offset: Tensor, points: Tensor) -> None:
    """The last end is the number of points; a compiled graph leaves that to the op."""
    ends = [] if torch.compiler.is_compiling() else bounds(name, offset)
    if ends and ends[-1] != len(points):
        raise ValueError(
            f"{name}: expected offsets that rise to {len(points)}, the number of points, "
            f"got {ends[1:]}"
        )


def starts_and_end(name: str, offset: Tensor) -> Tensor:
    """0 and the ends, int64 (B + 1,), where they are."""
    check_tensor(name, offset)
    if offset.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: expected int32 or int64, got {offset.dtype}")
    return torch.nn.functional.pad(offset.long(), (1, 0))


def split(points: Tensor, name: str, offset: Tensor) -> tuple[Tensor, ...]:
    """The clouds of a flat batch."""
    ends = bounds(name, offset)
    sizes = [end - begin for begin, end in pairwise(ends)]
    if ends[-1] != len(points) or min(sizes, default=0) < 0:
        raise ValueError(
            f"{name}: expected offsets that rise to {len(points)}, the number of points, "
            f"got {ends[1:]}"
        )
    return torch.split(points, sizes)


def offset2batch(offset: Tensor) -> Tensor:
    """Ends (B,) -> the cloud of each point, int64 (n,)."""
    counts = offset.diff(prepend=offset.new_zeros(1))
    return torch.arange(len(offset), device=offset.device).repeat_interleave(counts)


def batch2offset(batch: Tensor) -> Tensor:
    """The cloud of each point (n,) -> ends, int32 (B,)."""
    return batch.bincount().cumsum(0).int()
