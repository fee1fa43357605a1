"""The validated options of the command."""

import os
import re
from dataclasses import dataclass, field

from farpoint._rpcs.methods import Method, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.cli.arguments import ReadArguments, SampleArguments
from farpoint.errors import InvalidArgumentError
from farpoint.io.budget import available_bytes
from farpoint.io.cloud import ReadOptions
from farpoint.io.decoder import Bounds

# More decoders than that have the server wait for none, and the disk for all.
_MAX_WORKERS = 4
# Of the memory that is available, for all decoders together.
_DECODER_SHARE = 0.5


@dataclass(frozen=True)
class Amount:
    """Number of points to choose, or a share of those that may be chosen."""

    count: int | None = None
    share: float = 1.0

    def of(self, points: int) -> int:
        """The number for a cloud; of a share at least one."""
        return max(1, round(points * self.share)) if self.count is None else self.count


@dataclass(frozen=True, kw_only=True)
class Options(SampleArguments):
    """The checked command line; `sampling` is the method, None for farthest points."""

    amount: Amount = field(init=False)
    sampling: Method | None = field(init=False)
    covering_radius: float | None = field(init=False)
    workers: int = field(init=False)
    read: ReadOptions = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise InvalidArgumentError(f"--jobs must be 1 or more, got {self.jobs}", field="jobs")
        workers = self.jobs or min(os.cpu_count() or 1, _MAX_WORKERS)
        method = _method(self)
        vars(self).update(  # the class is frozen
            amount=_amount(self),
            sampling=method,
            covering_radius=self.radius if method is None else None,
            workers=workers,
            to=_suffix(self.to),
            read=read_options(self),
            bounds=Bounds(_memory_bytes(self.decoder_memory, workers), self.decoder_seconds),
        )

    @property
    def ignores_nonfinite(self) -> bool:
        """Whether rows with NaN or infinity are ignored instead of an error."""
        return self.nonfinite == "ignore"

    @property
    def is_counted(self) -> bool:
        """Whether the number of samples is given."""
        return self.covering_radius is None and isinstance(self.sampling, RandomSampling | None)

    @property
    def has_start(self) -> bool:
        """Whether the method has a first row."""
        return not isinstance(self.sampling, RandomSampling | VoxelGrid)


def parse_amount(text: str) -> Amount:
    """`1024` or `5%`; raises InvalidArgumentError for anything else."""
    share = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*%", text)
    if share and 0 < float(share[1]) <= 100:
        return Amount(share=float(share[1]) / 100)
    if re.fullmatch(r"[+-]?\d+", text):
        return Amount(count=int(text))
    raise InvalidArgumentError(f"-m must be a number or a share like 5%, got {text!r}", field="m")


def _amount(given: SampleArguments) -> Amount:
    is_grid = given.method == "voxel-grid"
    if given.samples is not None:
        if is_grid:
            raise InvalidArgumentError("-m goes with no voxel grid: its size decides", field="m")
        return parse_amount(given.samples)
    if given.radius is None and not is_grid:
        raise InvalidArgumentError("-m, or --radius, says how many points to choose", field="m")
    return Amount()


def _method(given: SampleArguments) -> Method | None:
    for flag, value, methods in (
        ("--voxel-size", given.voxel_size, ("voxel-grid",)),
        ("--select", given.select, ("voxel-grid",)),
        ("--seed", given.seed, ("random",)),
        ("--radius", given.radius, ("farthest-point", "poisson-disk")),
    ):
        if value is not None and given.method not in methods:
            raise InvalidArgumentError(
                f"{flag} goes with --method {' or '.join(methods)}", field="method"
            )
    if given.method == "voxel-grid":
        if given.voxel_size is None:
            raise InvalidArgumentError("--method voxel-grid needs --voxel-size", field="method")
        is_first = given.select in (None, "first")
        return VoxelGrid(given.voxel_size, "first" if is_first else "nearest_mean")
    if given.method == "random":
        return RandomSampling(given.seed or 0)
    if given.method == "poisson-disk":
        if given.radius is None:
            raise InvalidArgumentError("--method poisson-disk needs --radius", field="method")
        return PoissonDisk(given.radius)
    return None


def read_options(given: ReadArguments) -> ReadOptions:
    """Read options from the command line."""
    columns = None if given.columns is None else tuple(map(str.strip, given.columns.split(",")))
    try:
        return ReadOptions(
            _suffix(given.input_format), columns, given.array, given.topic, given.message
        )
    except ValueError as error:
        raise InvalidArgumentError(f"--{error}", field="columns") from error


def _suffix(text: str | None) -> str | None:
    """A suffix with its dot."""
    return None if text is None else f".{text.lstrip('.').lower()}"


def _memory_bytes(gigabytes: float | None, workers: int) -> int:
    """Memory of each decoder; 0 if the machine's memory is unknown."""
    if gigabytes is None:
        return int(_DECODER_SHARE * (available_bytes() or 0) / workers)
    if gigabytes <= 0:
        raise InvalidArgumentError(
            f"--decoder-memory must be above 0, got {gigabytes:g}", field="decoder_memory"
        )
    return int(gigabytes * 1e9)
