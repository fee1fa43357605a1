"""Arguments of a ragged batch, read on the host, or left on their device in a compiled graph."""

from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import (
    Integers,
    check_count,
    check_start,
    check_tensor,
    integer,
    to_device,
    to_list,
)
from farpoint_ops._sampling_arguments import Start, check_random, random_starts


@dataclass(frozen=True)
class RaggedBatch:
    """What the ragged op takes: tensors on the device of the points, sizes on the host."""

    bounds: Tensor  # int64 (B + 1,)
    slots: Tensor  # int64 (B + 1,)
    starts: Tensor | None  # int64 (B,)
    total_samples: int
    max_points: int
    max_samples: int


def ragged_batch(
    xyz: Tensor,
    offsets: Integers,
    samples: int | Integers,
    start: Start,
    generator: torch.Generator | None,
) -> RaggedBatch:
    """The arguments of `farthest_point_sample_ragged`, checked where that costs no graph break."""
    check_tensor("xyz", xyz)
    if xyz.dim() != 2:
        raise ValueError(f"xyz: expected shape (N, D), got {list(xyz.shape)}")
    given = (offsets, samples, start)
    if torch.compiler.is_compiling() and any(isinstance(a, Tensor) for a in given):
        return _traced(xyz, offsets, samples, start, generator)
    bounds = to_list("offsets", offsets)
    sizes = _sizes(bounds, xyz)
    counts = _for_each("num_samples", samples, len(sizes))
    _check_samples(counts, sizes)
    slots = list(accumulate(counts, initial=0))
    return RaggedBatch(
        to_device(bounds, xyz),
        to_device(slots, xyz),
        _starts(start, sizes, xyz, generator),
        slots[-1],
        max(sizes, default=0),
        max(counts, default=0),
    )


def _traced(
    xyz: Tensor,
    offsets: Integers,
    samples: int | Integers,
    start: Start,
    generator: torch.Generator | None,
) -> RaggedBatch:
    """No value of a tensor is read: the op checks them, and N bounds the points of a cloud."""
    bounds = _tensor("offsets", offsets, xyz)
    clouds = bounds.size(0) - 1
    if isinstance(samples, Tensor):
        slots = pad(_tensor("num_samples", samples, xyz).cumsum(0), (1, 0))
        total = most = int(slots[-1].item())  # a graph break unless scalar outputs are captured
        torch._check(total >= 0)  # type: ignore[no-untyped-call]
    elif isinstance(samples, int | torch.SymInt):
        most = integer("num_samples", samples)
        total = clouds * most
        slots = torch.arange(clouds + 1, device=xyz.device) * most
    else:
        counts = to_list("num_samples", samples)
        total, most = sum(counts), max(counts, default=0)
        slots = to_device(list(accumulate(counts, initial=0)), xyz)
    if isinstance(start, str):
        check_random(start)
        starts = random_starts(bounds.diff(), generator)
    elif isinstance(start, int | torch.SymInt):
        starts = torch.full((clouds,), start, device=xyz.device)
    else:
        starts = _tensor("start", start, xyz)
    return RaggedBatch(bounds, slots, starts, total, xyz.size(0), most)


def _tensor(name: str, values: Integers, xyz: Tensor) -> Tensor:
    if not isinstance(values, Tensor):
        return to_device(to_list(name, values), xyz)
    if values.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: expected int32 or int64, got {values.dtype}")
    return values.to(xyz.device, torch.int64)


def _starts(
    start: Start, sizes: list[int], xyz: Tensor, generator: torch.Generator | None
) -> Tensor | None:
    if isinstance(start, str):
        check_random(start)
        return random_starts(to_device(sizes, xyz), generator)
    rows = _for_each("start", start, len(sizes))
    check_start(rows, sizes)
    return to_device(rows, xyz) if any(rows) else None


def _sizes(bounds: list[int], xyz: Tensor) -> list[int]:
    """Points of each cloud."""
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
            raise ValueError(f"num_samples: expected 1 to {size}, the points of cloud {b}, got {m}")
