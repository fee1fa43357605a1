"""The validated options of the command."""

import os
import re
from dataclasses import dataclass, field

from farpoint._rpcs.methods import Method, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.cli.arguments import ReadArguments, SampleArguments, check_positive
from farpoint.errors import InvalidArgumentError
from farpoint.io.budget import available_bytes
from farpoint.io.cloud import ReadOptions
from farpoint.io.decoder import Bounds

# With more decoders all wait for the disk.
_MAX_WORKERS = 4
# Of the memory that is available, for all decoders together.
_DECODER_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Options(SampleArguments):
    """The checked command line."""

    amount: int | float = field(init=False)
    """The number of samples, or as a float the share of the points that may be chosen."""
    sampling: Method | None = field(init=False)
    """The method; None for farthest points."""
    covering_radius: float | None = field(init=False)
    workers: int = field(init=False)
    read: ReadOptions = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        for flag, value in (
            ("--jobs", self.jobs),
            ("--decoder-memory", self.decoder_memory),
            ("--decoder-seconds", self.decoder_seconds),
        ):
            if value is not None:
                check_positive(flag, value)
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


def _amount(given: SampleArguments) -> int | float:
    text, is_grid = given.samples, given.method == "voxel-grid"
    if text is None:
        if given.radius is None and not is_grid:
            raise InvalidArgumentError(
                "the number of points is missing: give -m or --radius", field="m"
            )
        return 1.0
    if is_grid:
        raise InvalidArgumentError(
            "-m must be left out with --method voxel-grid: --voxel-size decides", field="m"
        )
    share = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*%", text)
    if share and 0 < float(share[1]) <= 100:
        return float(share[1]) / 100
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    raise InvalidArgumentError(f"-m must be a number or a share like 5%, got {text!r}", field="m")


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
    return int(gigabytes * 1e9)
