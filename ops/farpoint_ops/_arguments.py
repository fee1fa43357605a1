"""Conversion and checks of arguments: per-cloud integers for the compiled ops.

The compiled ops check ranks, sizes and dtypes everywhere, and values on the CPU. What is checked
here is what they cannot see: Python values, and host values that are about to go to a device.
"""

import operator
from collections.abc import Sequence
from typing import SupportsIndex, TypeGuard, cast

import torch
from torch import Tensor

Integers = Sequence[int] | Tensor
Numbers = float | Sequence[float] | Tensor


def check_tensor(name: str, value: object) -> None:
    """Raises TypeError for an array of another library, and for a proxy of torch.fx."""
    if not isinstance(value, Tensor):
        is_proxy = hasattr(value, "__torch_function__")
        advice = "; torch.fx.wrap the op's name in your module" if is_proxy else ""
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}{advice}")


def is_mapped(tensor: Tensor) -> bool:
    """Whether torch.vmap maps over a dimension of the tensor, so that no value can be read."""
    functorch = torch._C._functorch
    while not torch.compiler.is_compiling() and functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def reads_values(*tensors: Tensor) -> bool:
    """Whether values of these may be read: not in a compiled graph, nor under torch.vmap."""
    return not torch.compiler.is_compiling() and not any(map(is_mapped, tensors))


def integer(name: str, value: SupportsIndex) -> int:
    """Converts `value` to an int; raises TypeError for a bool or a float.

    A symbolic size, as torch.compile makes them, passes through.
    """
    if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
        return cast("int", value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    operator.index(value)  # a float tensor is an error
    return int(value)  # torch.jit.trace warns here that the value becomes a constant


def check_integers(name: str, values: Tensor) -> None:
    """Raises TypeError for other dtypes than int32 and int64."""
    if values.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: expected int32 or int64, got {values.dtype}")


def to_list(name: str, values: int | Integers) -> list[int]:
    """The values on the host; a tensor on a device synchronizes."""
    if isinstance(values, Tensor):
        check_integers(name, values)
        if is_mapped(values):
            raise RuntimeError(f"{name}: torch.vmap cannot read its values; give a list")
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


def is_unread(values: object, like: Tensor) -> TypeGuard[Tensor]:
    """Whether a tensor goes to the op as it is, since reading it would wait, or cannot be done."""
    return isinstance(values, Tensor) and (
        values.device == like.device or not reads_values(values, like)
    )


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
    if is_unread(lengths, points):
        return lengths.to(points.device)
    batch, n = points.shape[:2]
    sizes = to_list(name, lengths)
    check_count(name, sizes, batch)
    for b, size in enumerate(sizes):
        if not low <= size <= n:
            raise ValueError(f"{name}: expected {low} <= length <= {n} for cloud {b}, got {size}")
    return to_device(sizes, points)


def numbers(
    name: str, values: Numbers, xyz: Tensor, clouds: int, *, positive: bool = False
) -> Tensor:
    """(B,) on the device of `xyz`, in the type of distances, from one value or one per cloud.

    Values on the host are checked; the op checks tensors.
    """
    dtype = torch.promote_types(xyz.dtype, torch.float32)
    if is_unread(values, xyz):
        if values.dim() > 1 or (values.dim() == 1 and values.size(0) != clouds):
            shape = list(values.shape)
            raise ValueError(
                f"{name}: expected one number, or one for each of {clouds}, got {shape}"
            )
        return values.to(xyz.device, dtype).expand(clouds)
    each = values.tolist() if isinstance(values, Tensor) else values
    if several := isinstance(each, Sequence):
        check_count(name, each, clouds)
    else:
        each = [each]
    if torch.compiler.is_compiling():  # a factor stays an input of the graph, a constant does not
        return torch.stack([xyz.new_ones((), dtype=dtype) * v for v in each]).expand(clouds)
    for b, value in enumerate(map(float, each)):
        if not (value > 0 if positive else value >= 0):
            kind = "positive" if positive else "non-negative"
            raise ValueError(f"{name}: expected a {kind} number for cloud {b}, got {value}")
    if several:
        return xyz.new_tensor(each, dtype=dtype)
    return xyz.new_full((clouds,), each[0], dtype=dtype)  # on a GPU without waiting for it
