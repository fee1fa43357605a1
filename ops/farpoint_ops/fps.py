"""Exact farthest point sampling.

Eldar, Lindenbaum, Porat and Zeevi, "The Farthest Point Strategy for Progressive Image Sampling",
IEEE Transactions on Image Processing 6(9), 1997. The contract is the same, bit for bit, on every
device:

* a squared distance is ``fma(dz, dz, fma(dy, dy, dx * dx))``, and so on for more dimensions in
  ascending order, ``fma(d_i, d_i, sum of the dimensions before)``: in float64 for float64
  coordinates, in float32 for all others (float16 and bfloat16 are widened first);
* the next sample is the point farthest from all samples so far, the lowest index on a tie;
* no index is sampled twice, even where points coincide;
* a point with a NaN or an infinity is sampled only when no finite one is left, lowest index first,
  and changes no distance;
* every prefix of a sample is a sample, and with a radius the result is the shortest prefix whose
  covering radius is at most that.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import (
    Integers,
    Numbers,
    check_lengths,
    check_tensor,
    integer,
    numbers,
)
from farpoint_ops._sampling_arguments import (
    Nonfinite,
    Start,
    check_nonfinite,
    dense_shape,
    dense_starts,
    ragged_batch,
    reject_nonfinite,
    reject_vmap,
    require_finite,
)


def farthest_point_sample(
    xyz: Tensor,
    num_samples: int | None = None,
    *,
    start: Start = 0,
    generator: torch.Generator | None = None,
    lengths: Integers | None = None,
    radius: Numbers | None = None,
    max_samples: int | None = None,
    nonfinite: Nonfinite = "last",
    return_distances: bool = False,
) -> Any:  # a tensor, or several where an option asks for more
    """Samples points of each cloud; each sample is the point farthest from those before it.

    Args:
        xyz: Coordinates (B, N, D), D from 1 to 1024, for example positions or features; float32,
            float16, bfloat16 or float64.
        num_samples: Number of samples of each cloud (m); with `radius` the maximum, None for N.
        start: Row of the first sample, one for all clouds or one for each, or "random" for a
            uniformly random row of each cloud. If that row is not finite, the first finite row
            of the cloud is used.
        generator: Generator of the random starts; by default torch's for the CPU. A seed gives
            the same rows on any device.
        lengths: Points of each cloud (B,); rows after them are padding and not read. By default
            N.
        radius: Ends sampling at the first covering radius that is at most this, rounded to the
            type of the distances; in the unit of `xyz`, one for all clouds or one for each.
        max_samples: With `radius` and without `num_samples`, the maximum number of samples of
            each cloud; the size of the result then does not depend on data, as torch.vmap and
            torch.export require.
        nonfinite: Treatment of points with a NaN or an infinity: "last" samples them when no
            finite one is left, "reject" raises an error, "ignore" never samples them. The last
            two synchronize with the device.
        return_distances: Whether to return the covering radius after each sample too.

    Returns:
        Indices, int32 (B, m). With `return_distances` also distances (B, m), in the unit of
        `xyz`, float64 for float64 coordinates, else float32: the largest distance from a finite
        point of the cloud to the nearest of the samples so far; the last is the covering radius
        of the whole sample. With `radius` both are flat, cloud after cloud, followed by int64
        offsets (B + 1,): cloud b has entries offsets[b] to offsets[b + 1]. With `max_samples`
        both are (B, max_samples), padded with -1 and distance 0, followed by the number of
        samples, int64 (B,). No result has a gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: `xyz` is not (B, N, D) with N > 0 and D in 1..1024, m is not in 1..N, a length
            not in m..N, a radius negative, a point not finite with "reject", or fewer than m
            points finite with "ignore".
        IndexError: A start is not a row of its cloud.
        RuntimeError: `radius` without `max_samples` under torch.vmap, which cannot return results
            of different lengths.

    Lengths, starts and radii on a GPU are not checked on the host, which would synchronize: an
    invalid length or start there is a device assertion, as for torch's gather. On a GPU all m
    points are sampled and the result is cut at the radius.
    """
    check_tensor("xyz", xyz)
    if num_samples is None and max_samples is None and radius is not None and lengths is not None:
        return _fps_to_radius(xyz, lengths, start, generator, radius, nonfinite, return_distances)
    num_samples = _most_samples(xyz, num_samples, max_samples, has_radius=radius is not None)
    sizes = check_lengths("lengths", lengths, xyz, low=num_samples)
    if nonfinite != "last":
        check_nonfinite(nonfinite, xyz)
        if nonfinite == "reject":
            reject_nonfinite(xyz, lambda: _in_use(xyz, sizes))
    starts = dense_starts(start, xyz, sizes, generator)
    limits = None if radius is None else numbers("radius", radius, xyz, xyz.size(0))
    indices, distances = torch.ops.farpoint.furthest_point_sample(
        xyz, num_samples, starts, sizes, return_distances, limits
    )
    if nonfinite == "ignore":
        _require_finite_samples(xyz, sizes, indices, num_samples if radius is None else 1)
    answer = (indices, distances) if return_distances else (indices,)
    if radius is not None:
        return _end_at_radius(answer, is_padded=max_samples is not None)
    return answer if return_distances else indices


def _end_at_radius(answer: tuple[Tensor, ...], *, is_padded: bool) -> tuple[Tensor, ...]:
    """Samples up to a radius: padded (B, max_samples) with their counts, or flat with offsets."""
    kept = answer[0] >= 0
    if is_padded:
        return (*answer, kept.sum(1))
    reject_vmap(kept)
    return (*(each[kept] for each in answer), pad(kept.sum(1).cumsum(0), (1, 0)))


def _require_finite_samples(
    xyz: Tensor, sizes: Tensor | None, indices: Tensor, wanted: int
) -> None:
    """Raises ValueError for a cloud with fewer finite points than `wanted`."""
    last = indices.select(1, wanted - 1).long()
    picked = xyz.gather(1, last[:, None, None].expand(-1, 1, xyz.size(2)))[:, 0]
    require_finite(picked, lambda: _finite_in_use(xyz, sizes), torch.full_like(last, wanted))


def _most_samples(
    xyz: Tensor, num_samples: int | None, max_samples: int | None, *, has_radius: bool
) -> int:
    """The maximum number of samples of a cloud."""
    if max_samples is not None:
        if not has_radius or num_samples is not None:
            raise TypeError("max_samples: expected a radius with it, and no num_samples")
        num_samples = max_samples
    elif num_samples is None:
        if not has_radius:
            raise TypeError("num_samples: expected an integer, or a radius without one")
        num_samples = dense_shape(xyz)[1]
    return integer("num_samples", num_samples)


def _fps_to_radius(
    xyz: Tensor,
    lengths: Integers,
    start: Start,
    generator: torch.Generator | None,
    radius: Numbers,
    nonfinite: Nonfinite,
    return_distances: bool,
) -> tuple[Tensor, ...]:
    """Samples clouds of different lengths up to a radius."""
    dense_shape(xyz)
    sizes = check_lengths("lengths", lengths, xyz, low=1)
    assert sizes is not None
    reject_vmap(xyz, sizes)
    bounds = pad(sizes.cumsum(0), (1, 0))
    rows, *distances, offsets = farthest_point_sample_ragged(
        *(xyz[_in_use(xyz, sizes)], bounds, sizes),
        start=start,
        generator=generator,
        radius=radius,
        nonfinite=nonfinite,
        return_distances=return_distances,
    )
    rows = rows - bounds[:-1].int().repeat_interleave(offsets.diff())
    return (rows, *distances, offsets)


def farthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    start: Start = 0,
    generator: torch.Generator | None = None,
    radius: Numbers | None = None,
    nonfinite: Nonfinite = "last",
    return_distances: bool = False,
) -> Any:
    """Samples points of each cloud of a flat batch, like `farthest_point_sample`.

    Args:
        xyz: Coordinates (N, D) of all clouds, concatenated, D from 1 to 1024; float32, float16,
            bfloat16 or float64.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].
        num_samples: Number of samples, one for all clouds or one for each; with `radius` the
            maximum.
        start: Row of the first sample, counted from the first row of its cloud; one for all
            clouds, one for each, or "random".
        generator: As for `farthest_point_sample`.
        radius: As for `farthest_point_sample`.
        nonfinite: As for `farthest_point_sample`.
        return_distances: Whether to return the covering radius after each sample too.

    Returns:
        Rows of `xyz`, int32 (sum of num_samples,), cloud after cloud; with `return_distances` also
        distances of the same shape, and with `radius` also offsets of the result, int64
        (B + 1,), as for `farthest_point_sample`. No result has a gradient.

    Raises:
        TypeError: A dtype is not one of those above.
        ValueError: The offsets do not rise from 0 to N, a cloud is empty, its number of samples
            is not in 1..its points, or as for `farthest_point_sample`.
        IndexError: A start is not a row of its cloud.

    `offsets`, `num_samples` and `start` are read on the host: tensors on a GPU synchronize. In a
    compiled graph tensors are not read: the op checks them on the CPU, and on a GPU an invalid
    one is a device assertion. The size of the result is then the sum of `num_samples`, which
    compiles as a number or a list, and as a tensor if `torch._dynamo.config.capture_scalar_outputs`
    is set.
    """
    batch = ragged_batch(xyz, offsets, num_samples, start, generator)
    check_nonfinite(nonfinite, xyz)
    if nonfinite == "reject":
        reject_nonfinite(xyz, lambda: None)
    limits = None if radius is None else numbers("radius", radius, xyz, batch.slots.size(0) - 1)
    indices, distances = torch.ops.farpoint.furthest_point_sample_ragged(
        *(xyz, batch.bounds, batch.slots, batch.starts),
        *(batch.total_samples, batch.max_points, batch.max_samples, return_distances, limits),
    )
    if nonfinite == "ignore":
        last = batch.slots[1:] - 1 if radius is None else batch.slots[:-1]
        require_finite(
            xyz[indices[last].long()],
            lambda: pad(xyz.isfinite().all(-1).cumsum(0), (1, 0))[batch.bounds].diff(),
            batch.slots.diff() if radius is None else torch.ones_like(last),
        )
    if radius is None:
        return (indices, distances) if return_distances else indices
    reject_vmap(indices)
    answer, kept = [indices, distances] if return_distances else [indices], indices >= 0
    return (*(each[kept] for each in answer), pad(kept.cumsum(0), (1, 0))[batch.slots])


def _in_use(xyz: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Mask (B, N) of rows that are not padding; None for all."""
    if lengths is None:
        return None
    return torch.arange(xyz.size(1), device=xyz.device) < lengths[:, None]


def _finite_in_use(xyz: Tensor, lengths: Tensor | None) -> Tensor:
    """Finite points of each cloud (B,)."""
    finite, counted = xyz.isfinite().all(-1), _in_use(xyz, lengths)
    return (finite if counted is None else finite & counted).sum(1)
