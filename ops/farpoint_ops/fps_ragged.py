"""Exact farthest point sampling of a ragged batch: flat points and offsets."""

from typing import TYPE_CHECKING, Literal, TypedDict, overload

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import Integers
from farpoint_ops._interrupt import reraise
from farpoint_ops._ragged_arguments import ragged_batch
from farpoint_ops._sampling_arguments import (
    Nonfinite,
    Radius,
    Start,
    check_nonfinite,
    radii,
    reject_nonfinite,
    reject_vmap,
    require_finite,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        """Keywords that do not change what is returned."""

        start: Start
        generator: torch.Generator | None
        nonfinite: Nonfinite


@overload
def farthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    radius: None = None,
    return_distances: Literal[False] = False,
    **options: "Unpack[Options]",
) -> Tensor: ...


@overload
def farthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    radius: None = None,
    return_distances: Literal[True],
    **options: "Unpack[Options]",
) -> tuple[Tensor, Tensor]: ...


@overload
def farthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    radius: Radius,
    return_distances: bool = False,
    **options: "Unpack[Options]",
) -> tuple[Tensor, ...]: ...


def farthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    start: Start = 0,
    generator: torch.Generator | None = None,
    radius: Radius | None = None,
    nonfinite: Nonfinite = "last",
    return_distances: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """Pick points of every cloud of a flat batch, as `farthest_point_sample` does for each.

    Args:
        xyz: Coordinates (N, D) of all clouds, one behind the other, D from 1 to 64; float32,
            float16, bfloat16 or float64.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].
        num_samples: Points to sample, one number for all clouds or one for each; with `radius` the
            most.
        start: Row of the first sample, counted from the first row of its own cloud; one for all
            clouds, one for each, or "random".
        generator: Of the random starts, as for `farthest_point_sample`.
        radius: Where sampling ends, one for all clouds or one for each, likewise.
        nonfinite: "last", "reject" or "ignore", likewise.
        return_distances: Also return the covering radius after each sample.

    Returns:
        Rows of `xyz`, int32 (sum of num_samples,), cloud after cloud; with `return_distances` also
        distances of the same shape, and with `radius` also the offsets of the answer, int64
        (B + 1,), as for `farthest_point_sample`. Nothing carries a gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: The offsets do not rise from 0 to N, a cloud is empty, its number of samples
            is not in 1..its points, or as for `farthest_point_sample`.
        IndexError: A start is not a row of its cloud.

    `offsets`, `num_samples` and `start` decide the launch, so they are read on the host: tensors
    on a GPU work, and make the call wait for them. In a compiled graph tensors are not read: the
    op checks them on the CPU, and on a GPU a bad one stops the kernel with a device assertion. The
    size of the answer is then the sum of `num_samples`, which compiles as a number or a list, and
    as a tensor where `torch._dynamo.config.capture_scalar_outputs` is on.
    """
    batch = ragged_batch(xyz, offsets, num_samples, start, generator)
    if nonfinite != "last":
        check_nonfinite(nonfinite)
    if nonfinite == "reject":
        reject_nonfinite(xyz, lambda: None)
    limits = None if radius is None else radii(radius, xyz, len(batch.slots) - 1)
    try:
        indices, distances = torch.ops.farpoint.furthest_point_sample_ragged(
            *(xyz, batch.bounds, batch.slots, batch.starts),
            *(batch.total_samples, batch.max_points, batch.max_samples, return_distances, limits),
        )
    except RuntimeError as error:
        reraise(error)
    if nonfinite == "ignore":
        last = batch.slots[1:] - 1 if radius is None else batch.slots[:-1]
        require_finite(
            xyz[indices[last].long()],
            lambda: pad(xyz.isfinite().all(-1).cumsum(0), (1, 0))[batch.bounds].diff(),
            batch.slots.diff(),
        )
    if radius is None:
        return (indices, distances) if return_distances else indices
    reject_vmap(indices)
    kept = indices >= 0
    ends = pad(kept.cumsum(0), (1, 0))[batch.slots]
    return (indices[kept], *([distances[kept]] if return_distances else []), ends)
