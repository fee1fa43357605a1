"""Conversion and checks of arguments: per-cloud integers for the compiled ops.

The compiled ops check ranks, sizes and dtypes everywhere, and values on the CPU. What is checked
here is what they cannot see: Python values, and host values that are about to go to a device.
"""

import operator
from collections.abc import Sequence
from typing import SupportsIndex, cast

import torch
from torch import Tensor

Integers = Sequence[int] | Tensor


def check_tensor(name: str, value: object) -> None:
    """Raises TypeError for an array of another library."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")


def integer(name: str, value: SupportsIndex) -> int:
    """Converts `value` to an int; raises TypeError for a bool or a float.

    A symbolic size, as torch.compile makes them, passes through.
    """
    if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
        return cast("int", value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    return operator.index(value)


def to_list(name: str, values: int | Integers) -> list[int]:
    """The values on the host; a tensor on a device synchronizes."""
    if isinstance(values, Tensor):
        if values.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"{name}: expected int32 or int64, got {values.dtype}")
        if values.dim() != 1:
            raise ValueError(f"{name}: expected 1 dimension, got shape {tuple(values.shape)}")
        return [int(v) for v in values.tolist()]
    if isinstance(values, int) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name}: expected integers or an integer tensor, got {values!r}")
    return [integer(f"{name}[{b}]", v) for b, v in enumerate(values)]


def check_count(name: str, values: Sequence[float], clouds: int) -> None:
    """One value for each cloud."""
    if len(values) != clouds:
        raise ValueError(f"{name}: expected {clouds} values, one per cloud, got {len(values)}")


def check_start(start: Sequence[int], sizes: Sequence[int]) -> None:
    """Raises IndexError unless each start is a row of its cloud of `sizes[b]` points."""
    check_count("start", start, len(sizes))
    for b, (row, size) in enumerate(zip(start, sizes, strict=True)):
        if not 0 <= row < size:
            raise IndexError(f"start: expected 0 <= start < {size} for cloud {b}, got {row}")


def to_device(values: Sequence[int], like: Tensor) -> Tensor:
    """The values as int64 on the device of `like`."""
    return torch.tensor(values, dtype=torch.int64, device=like.device)


def check_lengths(
    name: str, lengths: Integers | None, points: Tensor, *, low: int
) -> Tensor | None:
    """Sizes of the clouds of `points` (B, N, 3) on its device, each of low..N; None is all of N.

    Tensors on that device pass unread; the rank of `points` is left to the op.
    """
    if lengths is None or points.dim() != 3:
        return None
    if isinstance(lengths, Tensor) and lengths.device == points.device:
        return lengths
    batch, n = points.shape[:2]
    sizes = to_list(name, lengths)
    check_count(name, sizes, batch)
    for b, size in enumerate(sizes):
        if not low <= size <= n:
            raise ValueError(f"{name}: expected {low} <= length <= {n} for cloud {b}, got {size}")
    return to_device(sizes, points)
