"""Random rows and Poisson disk samples, equal bit for bit on every device."""

from itertools import pairwise

import torch
from torch import Tensor

from farpoint_ops._arguments import (
    Integers,
    Numbers,
    check_count,
    check_integers,
    check_lengths,
    check_tensor,
    integer,
    reads_values,
    to_list,
)
from farpoint_ops._sampling_arguments import Start, dense_shape, ragged_batch
from farpoint_ops.fps import farthest_point_sample, farthest_point_sample_ragged


def random_sample(
    xyz: Tensor,
    num_samples: int,
    *,
    seed: int | Integers = 0,
    lengths: Integers | None = None,
) -> Tensor:
    """Samples random rows of each cloud without replacement; only the seed determines them.

    Row i has number i of the seed's SplitMix64 stream (Steele, Lea and Flood, OOPSLA 2014). Rows
    are ordered by their numbers, the lower row on a tie. So rows are distinct, every sample is a
    prefix of a larger one with the same seed, and a cloud gets the same rows in any batch and on
    any device. A point with a NaN or an infinity is sampled only when no finite one is left.

    Args:
        xyz: Points (B, N, D); floating point.
        num_samples: Number of samples of each cloud (m).
        seed: 64-bit integer, one for all clouds or one for each.
        lengths: Points of each cloud (B,), as for `farthest_point_sample`.

    Returns:
        Indices, int32 (B, m).

    Raises:
        TypeError: A seed is not an integer.
        ValueError: `xyz` is not (B, N, D), m is not in 1..N, or a length not in m..N.
    """
    check_tensor("xyz", xyz)
    batch, n = dense_shape(xyz)
    count = integer("num_samples", num_samples)
    if not 1 <= count <= n:
        raise ValueError(f"num_samples: expected 1 to N = {n}, got {count}")
    sizes = check_lengths("lengths", lengths, xyz, low=count)
    places = torch.arange(n, device=xyz.device)
    numbers = _split_mix(_seeds(seed, batch, xyz)[:, None], places)
    groups = (~xyz.isfinite().all(-1)).long()
    if sizes is not None:
        groups = groups.masked_fill(places >= sizes[:, None], 2)
    clouds = torch.arange(batch, device=xyz.device)[:, None]
    order = _order(numbers.flatten(), (3 * clouds + groups).flatten())
    return (order.view(batch, n)[:, :count] - n * clouds).int()


def random_sample_ragged(
    xyz: Tensor,
    offsets: Integers,
    num_samples: int | Integers,
    *,
    seed: int | Integers = 0,
) -> Tensor:
    """Samples random rows of each cloud of a flat batch, like `random_sample`.

    Args:
        xyz: Points (N, D) of all clouds, concatenated; floating point.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].
        num_samples: Number of samples, one for all clouds or one for each.
        seed: 64-bit integer, one for all clouds or one for each.

    Returns:
        Rows of `xyz`, int32 (sum of num_samples,), cloud after cloud.

    Raises:
        TypeError: A seed is not an integer.
        ValueError: The offsets do not rise from 0 to N, a cloud is empty, or its number of
            samples is not in 1..its points.
    """
    batch = ragged_batch(xyz, offsets, num_samples, 0, None)
    first, slot = batch.bounds[:-1], batch.slots[:-1]
    rows, places = (torch.arange(n, device=xyz.device) for n in (xyz.size(0), batch.total_samples))
    clouds = torch.bucketize(rows, batch.bounds[1:], right=True)
    numbers = _split_mix(_seeds(seed, first.size(0), xyz)[clouds], rows - first[clouds])
    order = _order(numbers, 2 * clouds + ~xyz.isfinite().all(-1))
    sampled = torch.bucketize(places, batch.slots[1:], right=True)
    return order[places + (first - slot)[sampled]].int()


def _order(numbers: Tensor, groups: Tensor) -> Tensor:
    """Rows sorted by group, then by number as unsigned 64 bits, then by row."""
    ascending = (numbers ^ torch.iinfo(torch.int64).min).sort(stable=True).indices
    return ascending[groups[ascending].sort(stable=True).indices]


def _seeds(seed: int | Integers, batch: int, xyz: Tensor) -> Tensor:
    """The bits of the seeds as int64 (B,)."""
    if isinstance(seed, Tensor) and not reads_values(seed):
        check_integers("seed", seed)
        return seed.to(xyz.device, torch.int64)
    if isinstance(seed, int):
        return xyz.new_full((batch,), _signed(seed), dtype=torch.int64)
    values = to_list("seed", seed)
    check_count("seed", values, batch)
    return torch.tensor([_signed(v) for v in values], dtype=torch.int64, device=xyz.device)


def _signed(value: int) -> int:
    """The int64 of the same bits."""
    return (value + 2**63) % 2**64 - 2**63


def _split_mix(seeds: Tensor, places: Tensor) -> Tensor:
    """The numbers at these places of the seeds' streams; int64 arithmetic is modulo 2^64."""

    def xor_shifted(v: Tensor, by: int) -> Tensor:
        return v ^ ((v >> by) & ((1 << (64 - by)) - 1))

    z = seeds + (places + 1) * _signed(0x9E3779B97F4A7C15)
    z = xor_shifted(z, 30) * _signed(0xBF58476D1CE4E5B9)
    z = xor_shifted(z, 27) * _signed(0x94D049BB133111EB)
    return xor_shifted(z, 31)


def poisson_disk_sample(
    xyz: Tensor,
    radius: Numbers,
    *,
    offsets: Integers | None = None,
    max_samples: int | None = None,
    start: Start = 0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Samples points that are more than `radius` apart, as many as fit.

    They are a prefix of a farthest point sample, up to the first covering radius that is at most
    `radius`. So the result for a larger radius is a prefix of that for a smaller one, ties go to
    the lowest index, and indices are distinct. Points with a NaN or an infinity are sampled only
    in a cloud without finite ones.

    Args:
        xyz: Coordinates (B, N, D), or flat (N, D) with `offsets`; as for `farthest_point_sample`,
            like `start` and `generator`.
        radius: Minimum distance, one for all clouds or one for each; not negative.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].
        max_samples: Maximum number of samples of each cloud (B, N, D); fixes the size of the
            result.

    Returns:
        Indices, int32, cloud after cloud, of rows of the cloud, or of `xyz` with `offsets`; and
        their offsets, int64 (B + 1,). With `max_samples` indices (B, max_samples), padded with
        -1, and their number, int64 (B,); this form works under torch.vmap and torch.export.

    Raises:
        TypeError, ValueError, IndexError, RuntimeError: As `farthest_point_sample`.
    """
    check_tensor("xyz", xyz)
    if offsets is None:
        indices, ends = farthest_point_sample(
            xyz, start=start, generator=generator, radius=radius, max_samples=max_samples
        )
        return indices, ends
    if max_samples is not None:
        raise TypeError("max_samples: expected clouds (B, N, D) without offsets")
    sizes: Integers
    if isinstance(offsets, Tensor):
        sizes = offsets.diff()
    else:
        sizes = [end - begin for begin, end in pairwise(to_list("offsets", offsets))]
    indices, ends = farthest_point_sample_ragged(
        xyz, offsets, sizes, start=start, generator=generator, radius=radius
    )
    return indices, ends
