"""Other ways to choose points than the farthest: voxel grid, random rows, Poisson disk.

Each is exact in a contract of its own, and the same, bit for bit, on every device.
"""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from farpoint_ops._arguments import Integers, check_lengths, check_tensor, integer, to_list
from farpoint_ops._sampling_arguments import Radius, Start, dense_shape
from farpoint_ops.fps import furthest_point_sample
from farpoint_ops.fps_ragged import furthest_point_sample_ragged

# Places within a voxel that a mean is taken of: sums of 2^31 of them fit an int64.
_PLACES = 2**30


def voxel_grid_sample(
    xyz: Tensor,
    voxel_size: float,
    *,
    offsets: Integers | None = None,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
    select: Literal["first", "nearest_mean"] = "first",
) -> tuple[Tensor, Tensor]:
    """One point of each voxel that has any: cubes of a grid through `origin`, cloud by cloud.

    A point (x, y, z) is in voxel floor((x - origin) / voxel_size), and so for y and z, computed
    in float64. A point with a NaN or an infinity is in none. Rows ascend within each cloud, none
    comes twice, and with "first" the answer for the first rows of a cloud is a prefix of the
    answer for all of them.

    Args:
        xyz: Coordinates (N, 3) of all clouds, one behind the other; a floating point type.
        voxel_size: Side of the voxels, in the unit of `xyz`.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1]. One cloud
            of all rows when None.
        origin: A corner of the grid.
        select: "first" is the lowest row of each voxel, "nearest_mean" the row nearest to the
            mean that `voxel_grid_mean` gives, in float64, the lowest on a tie.

    Returns:
        Rows of `xyz`, int32 (S,), and their offsets, int64 (B + 1,).

    Raises:
        TypeError: `xyz` is not floating point.
        ValueError: `xyz` is not (N, 3), the offsets do not rise from 0 to N, `voxel_size` is not
            a positive number, a voxel is more than 2^53 from the origin, or `select` is neither.
    """
    if select not in ("first", "nearest_mean"):
        raise ValueError(f"select: expected 'first' or 'nearest_mean', got {select!r}")
    grid = _Grid(xyz, voxel_size, offsets, origin)
    rows = grid.first_rows() if select == "first" else grid.rows_nearest_to_means()
    return grid.in_order(rows)


def voxel_grid_mean(
    xyz: Tensor,
    voxel_size: float,
    *,
    offsets: Integers | None = None,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> tuple[Tensor, Tensor]:
    """The mean point of each voxel, in the order of the voxels' first rows.

    Args:
        xyz: As for `voxel_grid_sample`, likewise `voxel_size`, `offsets` and `origin`.

    Returns:
        Points (S, 3) in the type of `xyz`, and their offsets, int64 (B + 1,). A mean is taken of
        places within the voxel that are rounded down to a 2^30th of its side, so that the order
        of the sum does not matter; then it is rounded to the type. No gradient.

    Raises:
        TypeError, ValueError: As `voxel_grid_sample`.
    """
    grid = _Grid(xyz, voxel_size, offsets, origin)
    first = grid.first_rows()
    order = first.argsort()
    corner = grid.voxels[first] + grid.means() / _PLACES
    points = corner * voxel_size + grid.origin
    return points[order].to(xyz.dtype), grid.in_order(first)[1]


class _Grid:
    """Which voxel each finite point is in.

    Attributes:
        rows: Rows (P,) of the finite points, ascending; the others are in no voxel.
        voxels: Of every row (N, 3), float64.
        cells: Number of the voxel of each finite point (P,), from 0 to S - 1.
    """

    def __init__(
        self,
        xyz: Tensor,
        voxel_size: float,
        offsets: Integers | None,
        origin: tuple[float, float, float],
    ) -> None:
        check_tensor("xyz", xyz)
        if xyz.dim() != 2 or xyz.size(1) != 3:
            raise ValueError(f"xyz: expected shape (N, 3), got {list(xyz.shape)}")
        if not xyz.is_floating_point():
            raise TypeError(f"xyz: expected floating point coordinates, got {xyz.dtype}")
        if not 0 < voxel_size < float("inf"):
            raise ValueError(f"voxel_size: expected a positive number, got {voxel_size}")
        self.bounds = _bounds(offsets, xyz)
        self.origin = torch.tensor(origin, dtype=torch.float64, device=xyz.device)
        # A tensor, for torch divides by a number on a GPU as it multiplies by one over it.
        side = torch.full_like(self.origin, voxel_size)
        scaled = (xyz.detach().double() - self.origin) / side
        self.voxels = scaled.floor()
        self.rows = xyz.isfinite().all(-1).nonzero()[:, 0]
        if bool((self.voxels[self.rows].abs() > 2**53).any()):
            raise ValueError(
                f"voxel_size: a point is 2^53 voxels from the origin, got {voxel_size}"
            )
        self._places = ((scaled - self.voxels)[self.rows] * _PLACES).long()
        clouds = torch.bucketize(self.rows, self.bounds[1:], right=True)
        self.cells = self._numbered(clouds)
        self.size = int(self.cells.max()) + 1 if len(self.cells) else 0

    def _numbered(self, clouds: Tensor) -> Tensor:
        """Of equal cloud and voxel an equal number: below 2^31 each time, so no key overflows."""
        numbers = clouds
        for axis in self.voxels[self.rows].long().unbind(-1):
            values, places = axis.unique(return_inverse=True)  # type: ignore[no-untyped-call]
            numbers = (numbers * len(values) + places).unique(return_inverse=True)[1]
        return numbers

    def _lowest(self, values: Tensor, most: float) -> Tensor:
        """The lowest of the values (P,) of each voxel (S,)."""
        lowest = values.new_full((self.size,), most)
        return lowest.scatter_reduce(0, self.cells, values, "amin")

    def first_rows(self) -> Tensor:
        return self._lowest(self.rows, len(self.voxels))

    def means(self) -> Tensor:
        """Mean place within each voxel (S, 3), float64: integers are added, in whatever order."""
        sums = self._places.new_zeros(self.size, 3).index_add(0, self.cells, self._places)
        counts = torch.bincount(self.cells, minlength=self.size)
        return sums.double() / counts[:, None]

    def rows_nearest_to_means(self) -> Tensor:
        dx, dy, dz = (self._places.double() - self.means()[self.cells]).unbind(-1)
        squared = dx * dx + dy * dy
        squared = squared + dz * dz
        nearest = squared == self._lowest(squared, torch.inf)[self.cells]
        return self._lowest(self.rows.where(nearest, len(self.voxels)), len(self.voxels))

    def in_order(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """One row of each voxel, ascending, as int32, and the offsets of the clouds."""
        ascending = rows.sort().values
        return ascending.int(), torch.searchsorted(ascending, self.bounds)


def _bounds(offsets: Integers | None, xyz: Tensor) -> Tensor:
    """Int64 (B + 1,) on the device of `xyz`."""
    total = xyz.size(0)
    bounds = [0, total] if offsets is None else to_list("offsets", offsets)
    if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != total or bounds != sorted(bounds):
        raise ValueError(
            f"offsets: expected B + 1 offsets that rise from 0 to {total}, got {bounds}"
        )
    return torch.tensor(bounds, device=xyz.device)


def random_sample(
    xyz: Tensor,
    m: int,
    *,
    seed: int | Integers = 0,
    lengths: Integers | None = None,
) -> Tensor:
    """m rows of each cloud at random, without replacement, decided by a seed alone.

    Row i has the number that SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) gives at place i of
    the stream of the seed, and rows come in ascending order of their numbers, the lower row on a
    tie. So no row comes twice, every sample is a prefix of a larger one with its seed, and a
    cloud gets the same rows wherever it stands in a batch and whatever its device. A point with
    a NaN or an infinity is chosen only when no finite one is left, by the same order.

    Args:
        xyz: Points (B, N, D); floating point.
        m: Rows of each cloud.
        seed: One integer for all clouds or one for each; of 64 bits.
        lengths: Points of each cloud (B,), as for `furthest_point_sample`.

    Returns:
        Indices, int32 (B, m).

    Raises:
        TypeError: A seed is not an integer.
        ValueError: `xyz` is not (B, N, D), m is not in 1..N, or a length not in m..N.
    """
    check_tensor("xyz", xyz)
    batch, n = dense_shape(xyz, "xyz")
    count = integer("m", m)
    if not 1 <= count <= n:
        raise ValueError(f"m: expected 1 <= m <= N = {n}, got {count}")
    sizes = check_lengths("lengths", lengths, xyz, low=count)
    numbers = _split_mix(_seeds(seed, batch, xyz.device), n)
    # As signed integers in the order of the unsigned ones.
    order = (numbers ^ torch.iinfo(torch.int64).min).sort(dim=1, stable=True).indices
    places = torch.arange(n, device=xyz.device)
    last = (~xyz.isfinite().all(-1)).long()
    if sizes is not None:
        last = last.masked_fill(places >= sizes[:, None], 2)
    behind = last.gather(1, order).sort(dim=1, stable=True).indices
    return order.gather(1, behind)[:, :count].int()


def _seeds(seed: int | Integers, batch: int, device: torch.device) -> Tensor:
    """Int64 (B,), of which the bits count."""
    values = [integer("seed", seed)] * batch if isinstance(seed, int) else to_list("seed", seed)
    if len(values) != batch:
        raise ValueError(f"seed: expected {batch} values, one a cloud, got {len(values)}")
    signed = [(v + 2**63) % 2**64 - 2**63 for v in values]
    return torch.tensor(signed, dtype=torch.int64, device=device)


def _split_mix(seeds: Tensor, n: int) -> Tensor:
    """The first n numbers of each stream (B, n); int64 arithmetic is modulo 2^64."""

    def xor_shifted(v: Tensor, by: int) -> Tensor:
        return v ^ ((v >> by) & ((1 << (64 - by)) - 1))

    def signed(constant: int) -> int:
        return constant - 2**64 if constant >= 2**63 else constant

    steps = torch.arange(1, n + 1, device=seeds.device) * signed(0x9E3779B97F4A7C15)
    z = seeds[:, None] + steps
    z = xor_shifted(z, 30) * signed(0xBF58476D1CE4E5B9)
    z = xor_shifted(z, 27) * signed(0x94D049BB133111EB)
    return xor_shifted(z, 31)


def poisson_disk_sample(
    xyz: Tensor,
    radius: Radius,
    *,
    offsets: Integers | None = None,
    start: Start = 0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Points farther than `radius` from one another, as many as there is room for.

    They are the beginning of a farthest point sample: each is the farthest from those before, and
    none is left that is farther than the radius from all of them. So the answer for a larger
    radius is a prefix of that for a smaller one, ties go to the lowest index, and no index comes
    twice. Points with a NaN or an infinity are never chosen while a finite one is there.

    Args:
        xyz: Coordinates (B, N, D), or flat (N, D) with `offsets`; as for `furthest_point_sample`,
            likewise `start` and `generator`.
        radius: One for all clouds or one for each; not negative.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1].

    Returns:
        Indices, int32, cloud after cloud, of the cloud or with `offsets` of `xyz`; and their
        offsets, int64 (B + 1,).

    Raises:
        TypeError, ValueError, IndexError: As `furthest_point_sample`.
    """
    check_tensor("xyz", xyz)
    if offsets is not None:
        bounds = to_list("offsets", offsets)
        sizes = [end - begin for begin, end in pairwise(bounds)]
        return furthest_point_sample_ragged(
            xyz, bounds, sizes, start=start, generator=generator, radius=radius
        )
    most = dense_shape(xyz, "xyz")[1]
    return furthest_point_sample(xyz, most, start=start, generator=generator, radius=radius)
