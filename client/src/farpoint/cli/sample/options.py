"""The validated options of the command."""

import os
import re
from argparse import Namespace
from dataclasses import dataclass

from farpoint._rpcs.methods import Method, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.errors import InvalidArgumentError
from farpoint.io.cloud import ReadOptions

# With more processes all wait for the disk.
_MAX_JOBS = 4


@dataclass(frozen=True, kw_only=True)
class Options:
    """The checked command line."""

    inputs: list[str]
    recursive: bool
    read: ReadOptions
    amount: int | float
    """The number of samples, or as a float the share of the points that may be chosen."""
    all_if_fewer: bool
    method: Method | None
    """The method; None for farthest points."""
    covering_radius: float | None
    start: int | None
    ignores_nonfinite: bool
    """Whether rows with NaN or infinity are ignored instead of an error."""
    skip_zero: bool
    output: str | None
    to: str | None
    indices: bool
    resume: bool
    as_json: bool
    quiet: bool
    jobs: int
    timeout: float

    @classmethod
    def of(cls, given: Namespace) -> "Options":
        """The options of a command line.

        Raises:
            InvalidArgumentError: one of them is invalid, or some do not go together.
        """
        if given.jobs is not None and given.jobs < 1:
            raise InvalidArgumentError(f"--jobs must be above 0, got {given.jobs}", field="jobs")
        method = _method(given)
        names = cls.__dataclass_fields__.keys() & vars(given).keys()
        changed = {
            "read": read_options(given),
            "amount": _amount(given),
            "method": method,
            "covering_radius": given.radius if method is None else None,
            "ignores_nonfinite": given.nonfinite == "ignore",
            "to": _suffix(given.to),
            "jobs": given.jobs or min(os.cpu_count() or 1, _MAX_JOBS),
        }
        return cls(**{name: getattr(given, name) for name in names} | changed)

    @property
    def is_counted(self) -> bool:
        """Whether the number of samples is given."""
        return self.covering_radius is None and isinstance(self.method, RandomSampling | None)

    @property
    def has_start(self) -> bool:
        """Whether the method has a first row."""
        return not isinstance(self.method, RandomSampling | VoxelGrid)


def _amount(given: Namespace) -> int | float:
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


def _method(given: Namespace) -> Method | None:
    for flag, value, methods in (
        ("--voxel-size", given.voxel_size, ("voxel-grid",)),
        ("--select", given.select, ("voxel-grid",)),
        ("--seed", given.seed, ("random",)),
        ("--radius", given.radius, ("farthest-point", "poisson-disk")),
        ("--start", given.start, ("farthest-point", "poisson-disk")),
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


def read_options(given: Namespace) -> ReadOptions:
    """Read options from the command line."""
    columns = None if given.columns is None else tuple(map(str.strip, given.columns.split(",")))
    try:
        return ReadOptions(_suffix(given.format), columns, given.array, given.topic, given.message)
    except ValueError as error:
        raise InvalidArgumentError(f"--{error}", field="columns") from error


def _suffix(text: str | None) -> str | None:
    """A suffix with its dot."""
    return None if text is None else f".{text.lstrip('.').lower()}"
