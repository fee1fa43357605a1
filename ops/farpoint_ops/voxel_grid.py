"""Voxel grid sampling: the first point of each voxel, the nearest to the mean, or the mean.

Results are equal bit for bit on every device.
"""

from math import inf, prod
from typing import Literal

import torch
from torch import Tensor

from farpoint_ops._arguments import (
    Integers,
    Numbers,
    check_tensor,
    numbers,
    reads_values,
    to_list,
)

# Resolution of positions within a voxel: a sum of 2^31 of them fits an int64.
_PLACES = 2**30
# Grids of at most this many cells have one int64 key per cell; larger ones are rare.
_MOST_KEYS = 2**62


def voxel_grid_sample(
    xyz: Tensor,
    voxel_size: Numbers,
    *,
    offsets: Integers | None = None,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
    select: Literal["first", "nearest_mean"] = "first",
) -> tuple[Tensor, Tensor]:
    """Samples one point of each occupied voxel of each cloud.

    A point is in voxel floor((point - origin) / voxel_size), computed in float64. A point with a
    NaN or an infinity is in no voxel. Rows ascend within each cloud and are distinct. With
    "first" the result for a prefix of a cloud is a prefix of the result for the cloud.

    Args:
        xyz: Coordinates (N, 3) of all clouds, concatenated; floating point.
        voxel_size: Edge length of a voxel, in the unit of `xyz`, one for all clouds or one for
            each.
        offsets: B + 1 integers; cloud b is the rows from offsets[b] to offsets[b + 1]. By default
            one cloud.
        origin: A corner of the grid.
        select: "first" is the lowest row of each voxel, "nearest_mean" the row nearest to the
            mean of `voxel_grid_mean`, in float64, the lowest on a tie.

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
    return grid.in_order(grid.first() if select == "first" else grid.nearest_to_means())


def voxel_grid_mean(
    xyz: Tensor,
    voxel_size: Numbers,
    *,
    offsets: Integers | None = None,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> tuple[Tensor, Tensor]:
    """Computes the mean point of each voxel, in the order of the voxels' first rows.

    Args:
        xyz: As for `voxel_grid_sample`, like `voxel_size`, `offsets` and `origin`.

    Returns:
        Points (S, 3) in the type of `xyz`, and their offsets, int64 (B + 1,). Positions within a
        voxel are rounded down to a 2^30th of its edge, so that the order of the sum does not
        matter; the mean is rounded to the type. No gradient.

    Raises:
        TypeError, ValueError: As for `voxel_grid_sample`.
    """
    grid = _Grid(xyz, voxel_size, offsets, origin)
    first = grid.first()
    corners = grid.corners[first] + grid.means() / _PLACES
    points = (corners * grid.sides[first] + grid.origin)[first.argsort()]
    return points.to(xyz.dtype), grid.in_order(first)[1]


class _Grid:
    """The voxel of each finite point.

    Attributes:
        rows: Rows (P,) of the finite points, ascending.
        sides: Edge length of the voxel of each finite point (P, 1), float64.
        corners: Voxel of each finite point (P, 3), float64.
        cells: Number of that voxel (P,), from 0 to S - 1.
    """

    def __init__(
        self,
        xyz: Tensor,
        voxel_size: Numbers,
        offsets: Integers | None,
        origin: tuple[float, float, float],
    ) -> None:
        check_tensor("xyz", xyz)
        if not reads_values(xyz):
            raise RuntimeError(
                "xyz: voxel grids read sizes from the data, which torch.compile(fullgraph=True), "
                "torch.export and torch.vmap cannot"
            )
        if xyz.dim() != 2 or xyz.size(1) != 3:
            raise ValueError(f"xyz: expected shape (N, 3), got {list(xyz.shape)}")
        if not xyz.is_floating_point():
            raise TypeError(f"xyz: expected floating point coordinates, got {xyz.dtype}")
        self._bounds = _bounds(offsets, xyz)
        self.origin = torch.tensor(origin, dtype=torch.float64, device=xyz.device)
        sides = numbers("voxel_size", voxel_size, self.origin, len(self._bounds) - 1, positive=True)
        if not all(0 < side < inf for side in sides.tolist()):
            raise ValueError(f"voxel_size: expected a positive number, got {sides.tolist()}")
        self.rows = xyz.isfinite().all(-1).nonzero()[:, 0]
        clouds = torch.bucketize(self.rows, self._bounds[1:], right=True)
        self.sides = sides.index_select(0, clouds).unsqueeze(1)
        finite = xyz.detach() if len(self.rows) == len(xyz) else xyz.detach()[self.rows]
        self._scaled = (finite.double() - self.origin) / self.sides
        self.corners = self._scaled.floor()
        if bool((self.corners.abs() > 2**53).any()):
            raise ValueError(
                f"voxel_size: a point is 2^53 voxels from the origin, got {voxel_size}"
            )
        self.cells = self._numbered(clouds)
        self._size = int(self.cells.max()) + 1 if len(self.cells) else 0

    def _numbered(self, clouds: Tensor) -> Tensor:
        """A number from 0 for each pair of cloud and voxel."""
        voxels = self.corners.long()
        if not len(voxels):
            return clouds
        low = voxels.amin(0)
        widths: list[int] = (voxels.amax(0) - low + 1).tolist()
        axes, numbers = (voxels - low).unbind(-1), clouds
        if len(self._bounds) * prod(widths) < _MOST_KEYS:
            for axis, width in zip(axes, widths, strict=True):
                numbers = numbers * width + axis
            return _ranks(numbers)
        for axis in map(_ranks, axes):  # below 2^31 each time, so no key overflows
            numbers = _ranks(numbers * (int(axis.max()) + 1) + axis)
        return numbers

    def _lowest(self, values: Tensor, most: float) -> Tensor:
        """The lowest value of each voxel (S,), of values (P,)."""
        lowest = values.new_full((self._size,), most)
        return lowest.scatter_reduce(0, self.cells, values, "amin")

    def first(self) -> Tensor:
        """First point of each voxel (S,), as an index into `rows`."""
        places = torch.arange(len(self.rows), device=self.rows.device)
        return self._lowest(places, len(places))

    def _within(self) -> Tensor:
        """Position of each point in its voxel (P, 3), in 2^30ths of its edge."""
        return ((self._scaled - self.corners) * _PLACES).long()

    def means(self) -> Tensor:
        """Mean position within each voxel (S, 3), float64, from a sum of integers."""
        within = self._within()
        sums = within.new_zeros(self._size, 3).index_add(0, self.cells, within)
        counts = torch.bincount(self.cells, minlength=self._size)
        return sums.double() / counts[:, None]

    def nearest_to_means(self) -> Tensor:
        """Point nearest to the mean of each voxel (S,), as an index into `rows`."""
        dx, dy, dz = (self._within().double() - self.means()[self.cells]).unbind(-1)
        squared = dx * dx + dy * dy
        squared = squared + dz * dz
        nearest = squared == self._lowest(squared, torch.inf)[self.cells]
        places = torch.arange(len(self.rows), device=self.rows.device)
        return self._lowest(places.where(nearest, len(places)), len(places))

    def in_order(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The rows at these indices, ascending, as int32, and the offsets of the clouds."""
        ascending = self.rows[places].sort().values
        return ascending.int(), torch.searchsorted(ascending, self._bounds)


def _ranks(values: Tensor) -> Tensor:
    """Rank of each value among the distinct ones."""
    ranks: Tensor = values.unique(return_inverse=True)[1]  # type: ignore[no-untyped-call]
    return ranks


def _bounds(offsets: Integers | None, xyz: Tensor) -> Tensor:
    """Offsets as int64 (B + 1,) on the device of `xyz`."""
    total = xyz.size(0)
    bounds = [0, total] if offsets is None else to_list("offsets", offsets)
    if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != total or bounds != sorted(bounds):
        raise ValueError(
            f"offsets: expected B + 1 offsets that rise from 0 to {total}, got {bounds}"
        )
    return torch.tensor(bounds, device=xyz.device)
