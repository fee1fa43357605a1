"""The options that say how points are chosen, besides the farthest."""

from enum import Enum

from farpoint._rpcs.methods import Method, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.errors import InvalidArgumentError


class MethodName(str, Enum):
    """How points are chosen."""

    farthest_point = "farthest-point"
    voxel_grid = "voxel-grid"
    random = "random"
    poisson_disk = "poisson-disk"


class Select(str, Enum):
    """Which row stands for a voxel; a mean is no row of the file."""

    first = "first"
    nearest_mean = "nearest-mean"


def read_method(
    name: MethodName,
    voxel_size: float | None,
    select: Select | None,
    seed: int | None,
    radius: float | None,
) -> Method | None:
    """The method with its parameters; None for the farthest points.

    Raises:
        InvalidArgumentError: a parameter is wrong, missing, or of another method.
    """
    _check_alone("--voxel-size", voxel_size, name, MethodName.voxel_grid)
    _check_alone("--select", select, name, MethodName.voxel_grid)
    _check_alone("--seed", seed, name, MethodName.random)
    _check_alone("--radius", radius, name, MethodName.farthest_point, MethodName.poisson_disk)
    if name is MethodName.voxel_grid:
        if voxel_size is None:
            raise InvalidArgumentError(
                "--method voxel-grid needs --voxel-size", field="voxel_grid.voxel_size"
            )
        is_first = select in (None, Select.first)
        return VoxelGrid(voxel_size, "first" if is_first else "nearest_mean")
    if name is MethodName.random:
        return RandomSampling(seed or 0)
    if name is MethodName.poisson_disk:
        if radius is None:
            raise InvalidArgumentError(
                "--method poisson-disk needs --radius", field="covering_radius"
            )
        return PoissonDisk(radius)
    return None


def _check_alone(flag: str, value: object, name: MethodName, *its: MethodName) -> None:
    if value is not None and name not in its:
        methods = " or ".join(method.value for method in its)
        raise InvalidArgumentError(f"{flag} goes with --method {methods}", field="method")
