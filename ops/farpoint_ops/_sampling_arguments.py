"""Arguments of sampling: starts, points that are not finite, ragged batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import (
    Integers,
    check_count,
    check_integers,
    check_start,
    check_tensor,
    integer,
    is_mapped,
    is_unread,
    reads_values,
    to_device,
    to_list,
)

Start = int | Integers | Literal["random"]
Nonfinite = Literal["last", "reject", "ignore"]


def check_nonfinite(policy: str, xyz: Tensor) -> None:
    """Raises ValueError for an unknown policy, and RuntimeError under vmap for one that reads."""
    if policy not in ("last", "reject", "ignore"):
        raise ValueError(f"nonfinite: expected 'last', 'reject' or 'ignore', got {policy!r}")
    if policy != "last" and is_mapped(xyz):
        raise RuntimeError(
            f"nonfinite: torch.vmap cannot raise the error of {policy!r}; check the clouds outside"
        )


def dense_shape(xyz: Tensor) -> tuple[int, int]:
    """B and N of clouds (B, N, D)."""
    if xyz.dim() != 3:
        raise ValueError(f"xyz: expected shape (B, N, D), got {list(xyz.shape)}")
    if xyz.size(1) == 0:
        raise ValueError(f"xyz: expected at least one point in a cloud, got {list(xyz.shape)}")
    return xyz.size(0), xyz.size(1)


def dense_starts(
    start: Start, xyz: Tensor, lengths: Tensor | None, generator: torch.Generator | None
) -> Tensor | None:
    """Int64 or int32 (B,) on the device of `xyz`; None for row 0 of every cloud."""
    if type(start) is int and start == 0:  # nearly always, and the tests below take a microsecond
        return None
    if is_unread(start, xyz):
        return start.to(xyz.device)
    batch, n = dense_shape(xyz)
    if isinstance(start, str):
        check_random(start)
        sizes = xyz.new_full((batch,), n, dtype=torch.int64) if lengths is None else lengths
        return random_starts(sizes, generator)
    if not isinstance(start, Tensor | Sequence):
        row = integer("start", start)
        if not 0 <= row < n:
            raise IndexError(f"start: expected 0 <= start < N = {n}, got {row}")
        return None if row == 0 else xyz.new_full((batch,), row, dtype=torch.int64)
    rows = to_list("start", start)  # type: ignore[arg-type]  # words were dealt with
    check_start(rows, [n] * batch)
    return to_device(rows, xyz)


def check_random(start: str) -> None:
    """Raises ValueError for a text other than "random"."""
    if start != "random":
        raise ValueError(f"start: expected 'random' or rows, got {start!r}")


def random_starts(sizes: Tensor, generator: torch.Generator | None) -> Tensor:
    """A uniformly random row of each cloud of `sizes[b]` points, int64 (B,).

    Drawn on the device of the generator, the CPU where there is none: one seed gives the same
    rows whatever device the clouds are on.
    """
    if generator is None:  # torch takes no symbolic size with a generator, not even None
        drawn = torch.rand(sizes.size(0), dtype=torch.float64, device="cpu")
    elif torch.compiler.is_compiling():
        raise RuntimeError("generator: a compiled graph has none; draw rows outside, as start")
    else:
        drawn = torch.rand(
            sizes.size(0), dtype=torch.float64, generator=generator, device=generator.device
        )
    rows = (drawn.to(sizes.device) * sizes).long()
    return torch.minimum(rows, sizes.long() - 1)  # the product may round up to the size


def reject_vmap(*tensors: Tensor) -> None:
    """Raises RuntimeError for samples to a radius under vmap: their lengths differ."""
    if any(map(is_mapped, tensors)):
        raise RuntimeError(
            "radius: torch.vmap cannot return a different number of samples for each cloud; give "
            "max_samples for answers (B, max_samples) with -1 behind the last sample"
        )


def require(holds: Tensor, error: Callable[[], ValueError]) -> None:
    """Raises `error()` unless all of `holds` is true; synchronizes.

    A compiled graph cannot raise it and asserts instead, on a GPU when the kernel runs.
    """
    if torch.compiler.is_compiling():
        torch._assert_async(holds.all(), "xyz: expected other coordinates, see nonfinite")
    elif not bool(holds.all()):
        raise error()


def require_finite(picked: Tensor, finite: Callable[[], Tensor], wanted: Tensor) -> None:
    """Raises ValueError unless the last samples (B, D), and so all samples, are finite.

    Args:
        picked: The points.
        finite: Finite points of each cloud (B,), asked for in an error.
        wanted: Samples of each cloud (B,).
    """

    def too_few() -> ValueError:
        available = finite()
        b = int((available < wanted).int().argmax())
        return ValueError(
            f"num_samples: expected at most {int(available[b])}, the finite points of cloud {b}, "
            f"got {int(wanted[b])}"
        )

    require(picked.isfinite().all(-1), too_few)


def reject_nonfinite(xyz: Tensor, in_use: Callable[[], Tensor | None]) -> None:
    """Raises ValueError for the first row of clouds (..., 3) that is not finite.

    Args:
        xyz: The clouds.
        in_use: Which rows count (...,), asked for when there is something to find; None is all.
    """
    if not torch.compiler.is_compiling() and bool(xyz.sum().isfinite()):
        return  # a sum is not finite where one of its terms is not
    finite = xyz.isfinite().all(-1)
    counted = in_use()
    if counted is not None:
        finite = finite | ~counted
    require(finite, lambda: _nonfinite(finite))


def _nonfinite(finite: Tensor) -> ValueError:
    place = [int(v) for v in (~finite).nonzero()[0]]
    where = f"row {place[1]} of cloud {place[0]}" if len(place) == 2 else f"row {place[0]}"
    return ValueError(
        "xyz: expected finite coordinates (nonfinite='ignore' samples around others), got "
        f"{int((~finite).sum())} rows with NaN or infinity, the first at {where}"
    )


@dataclass(frozen=True)
class RaggedBatch:
    """Arguments of the ragged op: tensors on the device of the points, sizes on the host."""

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
    """The arguments of `farthest_point_sample_ragged`, checked if that causes no graph break."""
    check_tensor("xyz", xyz)
    if xyz.dim() != 2:
        raise ValueError(f"xyz: expected shape (N, D), got {list(xyz.shape)}")
    given = [a for a in (offsets, samples, start) if isinstance(a, Tensor)]
    if given and not reads_values(*given):
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
        max(sizes) if sizes else 0,
        max(counts) if counts else 0,
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
        if is_mapped(samples):
            raise RuntimeError("num_samples: torch.vmap cannot read its values; give a list")
        slots = pad(_tensor("num_samples", samples, xyz).cumsum(0), (1, 0))
        total = most = cast("int", slots[-1].item())  # a graph break unless scalars are captured
        torch._check(total >= 0)  # type: ignore[no-untyped-call]
    elif isinstance(samples, int | torch.SymInt):
        most = integer("num_samples", samples)
        total = clouds * most
        slots = torch.arange(clouds + 1, device=xyz.device) * most
    else:
        counts = to_list("num_samples", samples)
        total, most = sum(counts), max(counts) if counts else 0
        slots = to_device(list(accumulate(counts, initial=0)), xyz)
    if isinstance(start, str):
        check_random(start)
        starts = random_starts(bounds.diff(), generator)
    elif isinstance(start, int | torch.SymInt):
        starts = bounds.new_full((clouds,), start)
    else:
        starts = _tensor("start", start, xyz)
    return RaggedBatch(bounds, slots, starts, total, xyz.size(0), most)


def _tensor(name: str, values: Integers, xyz: Tensor) -> Tensor:
    if not isinstance(values, Tensor):
        return to_device(to_list(name, values), xyz)
    check_integers(name, values)
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
    if isinstance(values, Tensor | Sequence):
        numbers = to_list(name, values)
        check_count(name, numbers, clouds)
        return numbers
    return [integer(name, values)] * clouds


def _check_samples(counts: list[int], sizes: list[int]) -> None:
    for b, (m, size) in enumerate(zip(counts, sizes, strict=True)):
        if not 1 <= m <= size:
            raise ValueError(f"num_samples: expected 1 to {size}, the points of cloud {b}, got {m}")
