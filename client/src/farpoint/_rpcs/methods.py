"""Sampling methods other than farthest points: parameters, checks and requests."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from operator import index
from typing import Literal, TypeAlias, TypedDict, get_args

from farpoint._types import Attributes
from farpoint.errors import InvalidArgumentError
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import voxel_grid_pb2

Selection: TypeAlias = Literal["first", "nearest_mean", "mean"]


@dataclass(frozen=True)
class VoxelGrid:
    """Samples one point of each occupied voxel of a grid; `m` must be None.

    A point is in voxel floor((point - origin) / voxel_size), computed in float64 from the
    coordinates as passed. Rows ascend and are distinct. With "first" the sample of a prefix of a
    cloud is a prefix of the sample of the cloud.

    Raises:
        InvalidArgumentError: a parameter is invalid.
    """

    voxel_size: float
    """Edge length of a voxel, in the unit of the coordinates."""
    select: Selection = "first"
    """"first" is the lowest row of a voxel; "nearest_mean" the row nearest to its mean, the lowest
    on a tie; "mean" the mean itself in `Sample.points`, with the index and the attributes of the
    lowest row."""
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """A corner of the grid."""

    def __post_init__(self) -> None:
        if not _is_number(self.voxel_size) or not 0 < self.voxel_size < float("inf"):
            raise _wrong("voxel_size", "a number above 0", self.voxel_size, "voxel_grid.voxel_size")
        if self.select not in get_args(Selection):
            expected = '"first", "nearest_mean" or "mean"'
            raise _wrong("select", expected, self.select, "voxel_grid.selection")
        if len(self.origin) != 3 or not all(_is_number(v) and isfinite(v) for v in self.origin):
            raise _wrong("origin", "three finite numbers", self.origin, "voxel_grid.origin")


@dataclass(frozen=True)
class RandomSampling:
    """Samples m random rows without replacement; only the seed determines them.

    Rows are ordered by their SplitMix64 numbers, so every sample is a prefix of a larger one with
    the same seed, on every device and in every batch.

    Raises:
        InvalidArgumentError: a seed is not an integer from 0 to 2^64 - 1.
    """

    seed: int | Sequence[int] = 0
    """One for all clouds, or one per cloud."""

    def __post_init__(self) -> None:
        for seed in self._seeds():
            is_whole = hasattr(seed, "__index__") and not isinstance(seed, bool)
            if not is_whole or not 0 <= seed < 2**64:
                raise _wrong("seed", "a whole number from 0 to 2^64 - 1", seed, "seeds")

    def _seeds(self) -> list[int]:
        return [*self.seed] if isinstance(self.seed, Iterable) else [self.seed]


@dataclass(frozen=True)
class PoissonDisk:
    """Samples points that are more than a radius apart, as many as fit.

    They are a prefix of the farthest points, up to the first covering radius that is at most this:
    the sample for a larger radius is a prefix of that for a smaller one. `m`, if given, is the
    maximum.

    Raises:
        InvalidArgumentError: the radius is not a number of at least 0.
    """

    radius: float
    """Distance that samples exceed, in the unit of the coordinates, rounded to float32."""

    def __post_init__(self) -> None:
        check_radius(self.radius)


Method: TypeAlias = VoxelGrid | RandomSampling | PoissonDisk
Nonfinite: TypeAlias = Literal["reject", "ignore"]
Progress: TypeAlias = Callable[[int, int], object]


class SampleOptions(TypedDict, total=False):
    """Keyword arguments of `sample`, for the overloads."""

    attributes: Attributes | None
    start: int | Sequence[int]
    nonfinite: Nonfinite
    radius: float | None
    method: Method | None
    timeout: float | None
    progress: Progress | None


class EncodeOptions(TypedDict, total=False):
    """Keyword arguments of `encode`."""

    model: str | None
    attributes: Attributes | None
    timeout: float | None


class InferOptions(TypedDict, total=False):
    """Keyword arguments of `infer`."""

    outputs: Sequence[str] | None
    timeout: float | None


_SELECTIONS: dict[str, voxel_grid_pb2.VoxelSelection.ValueType] = {
    "first": voxel_grid_pb2.VOXEL_SELECTION_FIRST,
    "nearest_mean": voxel_grid_pb2.VOXEL_SELECTION_NEAREST_MEAN,
    "mean": voxel_grid_pb2.VOXEL_SELECTION_MEAN,
}


def check_radius(radius: object) -> None:
    """Raises InvalidArgumentError unless the radius is a number of at least 0."""
    if not _is_number(radius) or not float(radius) >= 0:  # type: ignore[arg-type]
        raise InvalidArgumentError(
            f"radius must be a number of at least 0, got {radius!r}", field="covering_radius"
        )


def check_arguments(method: Method, m: object, start: object, radius: float | None) -> None:
    """Raises InvalidArgumentError for arguments of `sample` that the method does not use."""
    if not isinstance(method, VoxelGrid | RandomSampling | PoissonDisk):
        expected = "a VoxelGrid, RandomSampling or PoissonDisk, or None for the farthest points"
        raise _wrong("method", expected, method, "method")
    kind = type(method).__name__
    if radius is not None:
        raise _wrong("radius", f"None with {kind}", radius, "covering_radius")
    if isinstance(method, VoxelGrid) and m is not None:
        raise _wrong(
            "m", "None with VoxelGrid, which samples one point per voxel", m, "sample_counts"
        )
    if not isinstance(method, PoissonDisk) and not (isinstance(start, int) and start == 0):
        raise _wrong("start", f"0 with {kind}", start, "start_indices")


def write_method(method: Method, request: pb.SampleRequest, clouds: int) -> None:
    """Sets the method of a request for farthest points.

    Raises:
        InvalidArgumentError: the number of seeds is not that of the clouds.
    """
    if isinstance(method, PoissonDisk):
        request.method = pb.SAMPLING_METHOD_POISSON_DISK
        request.covering_radius = method.radius
        return
    request.ClearField("start_indices")
    request.return_distances = False
    if isinstance(method, VoxelGrid):
        request.method = pb.SAMPLING_METHOD_VOXEL_GRID
        grid = request.voxel_grid
        grid.voxel_size, grid.selection = method.voxel_size, _SELECTIONS[method.select]
        grid.origin.extend(method.origin)
        request.return_points = method.select == "mean"
        return
    seeds = method._seeds()
    if isinstance(method.seed, Iterable) and len(seeds) != clouds:
        raise _wrong("seed", f"one number or one per cloud ({clouds})", method.seed, "seeds")
    request.method = pb.SAMPLING_METHOD_RANDOM
    request.seeds.extend(map(index, seeds))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:  # an integer beyond float64
        return False
    return True


def _wrong(name: str, expected: str, got: object, field: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must be {expected}, got {got!r}", field=field)
