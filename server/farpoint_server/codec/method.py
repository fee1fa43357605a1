"""The method of a SampleRequest with its parameters."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Literal

import numpy as np

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import voxel_grid_pb2
from farpoint_server.compute.arrays import Float32s, Float64s, Int64s
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.method import Method, RandomRows, VoxelGrid

# Fields that a method does not use; a request that has one is refused.
_UNUSED: Mapping["pb.SamplingMethod.ValueType", Sequence[str]] = {
    pb.SAMPLING_METHOD_UNSPECIFIED: ("voxel_grid", "seeds"),
    pb.SAMPLING_METHOD_FARTHEST_POINT: ("voxel_grid", "seeds"),
    pb.SAMPLING_METHOD_POISSON_DISK: ("voxel_grid", "seeds"),
    pb.SAMPLING_METHOD_VOXEL_GRID: (
        *("seeds", "sample_counts", "start_indices"),
        *("covering_radius", "return_distances"),
    ),
    pb.SAMPLING_METHOD_RANDOM: (
        *("voxel_grid", "start_indices", "covering_radius", "return_distances"),
    ),
}
SAMPLING_METHODS = tuple(sorted(method for method in _UNUSED if method))
_SELECTIONS: Mapping[int, Literal["first", "nearest_mean", "mean"]] = {
    voxel_grid_pb2.VOXEL_SELECTION_UNSPECIFIED: "first",
    voxel_grid_pb2.VOXEL_SELECTION_FIRST: "first",
    voxel_grid_pb2.VOXEL_SELECTION_NEAREST_MEAN: "nearest_mean",
    voxel_grid_pb2.VOXEL_SELECTION_MEAN: "mean",
}
# Beyond it float64 does not tell neighboring voxels apart.
MAX_VOXELS = 2**53


def read_method(request: pb.SampleRequest, lengths: Int64s) -> Method | None:
    """The method with its parameters; None for farthest points, to a radius or not."""
    method = request.method
    given = {field.name for field, _ in request.ListFields()}
    for name in _UNUSED[method]:
        if name in given:
            expected = f"none with {pb.SamplingMethod.Name(method)}"
            raise InvalidRequestError(name, expected, "a value")
    if method == pb.SAMPLING_METHOD_VOXEL_GRID:
        return _read_voxel_grid(request.voxel_grid)
    if method == pb.SAMPLING_METHOD_RANDOM:
        return _read_random(request.seeds, len(lengths))
    if method == pb.SAMPLING_METHOD_POISSON_DISK and "covering_radius" not in given:
        expected = "the radius of SAMPLING_METHOD_POISSON_DISK"
        raise InvalidRequestError("covering_radius", expected, "none")
    return None


def _read_voxel_grid(grid: voxel_grid_pb2.VoxelGrid) -> VoxelGrid:
    if not 0 < grid.voxel_size < float("inf"):
        raise InvalidRequestError("voxel_grid.voxel_size", "a number above 0", grid.voxel_size)
    if grid.selection not in _SELECTIONS:
        names = ", ".join(voxel_grid_pb2.VoxelSelection.keys())
        raise InvalidRequestError("voxel_grid.selection", f"one of {names}", grid.selection)
    if len(grid.origin) not in (0, 3) or not all(map(isfinite, grid.origin)):
        got = f"{len(grid.origin)} numbers" if len(grid.origin) != 3 else [*grid.origin]
        raise InvalidRequestError("voxel_grid.origin", "three finite numbers or none", got)
    x, y, z = grid.origin or (0.0, 0.0, 0.0)
    return VoxelGrid(grid.voxel_size, _SELECTIONS[grid.selection], (x, y, z))


def _read_random(seeds: Sequence[int], clouds: int) -> RandomRows:
    if seeds and len(seeds) not in (1, clouds):
        raise InvalidRequestError("seeds", f"1 value or {clouds}, one per cloud", len(seeds))
    each = tuple(seeds) or (0,)
    return RandomRows(each if len(each) == clouds else each * clouds)


def check_grid(points: Float32s | Float64s, grid: VoxelGrid) -> None:
    """Raises InvalidRequestError where a finite point (P, 3) is too many voxels from the origin."""
    # At least one: `check_finite` comes before.
    finite = points[np.isfinite(points).all(axis=1)]
    ends = np.stack([finite.min(axis=0), finite.max(axis=0)]).astype(np.float64)
    with np.errstate(over="ignore"):
        voxels = np.abs(np.floor((ends - grid.origin) / grid.voxel_size))
    if not (voxels <= MAX_VOXELS).all():
        expected = "every point within 2^53 voxels of the origin"
        raise InvalidRequestError("voxel_grid.voxel_size", expected, grid.voxel_size)
