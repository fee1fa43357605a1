"""Options of `farpoint sample`, `farpoint info` and `farpoint bench`, without their code."""

# ruff: noqa: RUF009 - `_option` makes a field
import math
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeAlias

from farpoint._connection.targets import DEFAULT_TIMEOUT_S
from farpoint.errors import InvalidArgumentError

Nonfinite: TypeAlias = Literal["reject", "ignore"]
MethodName: TypeAlias = Literal["farthest-point", "voxel-grid", "random", "poisson-disk"]
# A mean is not a row of the file.
Select: TypeAlias = Literal["first", "nearest-mean"]


def _option(words: str, text: str, default: Any = None) -> Any:
    """A field with its flags, the name of its value and its help, for `Parser.add_fields`."""
    return field(default=default, metadata={"option": (words, text)})


def check_positive(flag: str, value: float) -> None:
    """Raises InvalidArgumentError unless the value of a flag is a finite number above 0."""
    if not 0 < value < math.inf:
        raise InvalidArgumentError(
            f"{flag} must be a finite number above 0, got {value:g}", field=flag
        )


@dataclass(frozen=True, kw_only=True)
class ReadArguments:
    """Options for reading files."""

    input_format: str | None = _option("--format SUFFIX", "Format of the inputs, such as .laz.")
    columns: str | None = _option(
        "--columns NAMES", "Columns of a .bin, a plain array or a text: x,y,z,i,ring."
    )
    array: str | None = _option("--array NAME", "Array of an .npz with the points.")
    topic: str | None = _option("--topic NAME", "Topic of a recording.")
    message: int = _option("--message K", "Index of the topic's message, from 0.", 0)


@dataclass(frozen=True, kw_only=True)
class PointArguments:
    """Options for the choice of points."""

    samples: str | None = _option(
        "-m --samples M", "Samples per cloud: 1024 or 5%; with --radius the maximum."
    )
    radius: float | None = _option(
        "--radius R", "Sample until no point is farther than R from a sample."
    )
    method: MethodName = _option("--method", "Sampling method (farthest-point).", "farthest-point")
    voxel_size: float | None = _option("--voxel-size S", "Edge length of a voxel.")
    select: Select | None = _option("--select", "Row that represents a voxel (first).")
    seed: int | None = _option("--seed N", "Seed of random rows (0).")
    start: int | None = _option("--start ROW", "Row of the first sample (0).")
    nonfinite: Nonfinite = _option(
        "--nonfinite",
        "Rows with NaN or infinity: an error (reject) or never sampled (ignore).",
        "reject",
    )
    skip_zero: bool = _option("--skip-zero", "Never sample rows that are exactly (0, 0, 0).", False)
    all_if_fewer: bool = _option(
        "--all-if-fewer", "Write all points of a cloud that has fewer than M.", False
    )


@dataclass(frozen=True, kw_only=True)
class OutputArguments:
    """Options for what is written and printed."""

    output: str | None = _option(
        "-o --output OUT", "Output file; a folder for several inputs; - for JSON lines on stdout."
    )
    to: str | None = _option("--to SUFFIX", "Format of the outputs in a folder, such as .ply.")
    indices: bool = _option(
        "--indices",
        "Also write the row indices to OUT.indices.npy; without -o next to the input.",
        False,
    )
    resume: bool = _option("--resume", "Skip inputs whose outputs exist.", False)
    as_json: bool = _option("--json", "Print JSON, one object per line, failures included.", False)
    quiet: bool = _option("-q --quiet", "Print failures only.", False)


@dataclass(frozen=True, kw_only=True)
class WorkArguments:
    """Options for how files are processed."""

    recursive: bool = _option("-r --recursive", "Include subfolders.", False)
    jobs: int | None = _option("-j --jobs N", "Files at a time (one per core, up to 4).")
    decoder_memory: float | None = _option(
        "--decoder-memory GB",
        "Memory limit for reading one file (a share of half of the free memory).",
    )
    decoder_seconds: float = _option(
        "--decoder-seconds S", "Seconds to read 100 MB of a file (60).", 60.0
    )
    timeout: float = _option(
        "--timeout S", "Timeout of one request in seconds (60).", DEFAULT_TIMEOUT_S
    )


@dataclass(frozen=True, kw_only=True)
class SampleArguments(WorkArguments, ReadArguments, OutputArguments, PointArguments):
    """The parsed command line of `farpoint sample`."""

    inputs: list[str] = _option("IN...", "Cloud files, folders, or - for standard input.", MISSING)


@dataclass(frozen=True)
class BenchArguments:
    """The parsed command line of `farpoint bench`."""

    sizes: list[str] | None = _option(
        "--size POINTS:SAMPLES[:SHARE]",
        "Size of a request (16384:1024); repeat it for a mix.",
    )
    cloud: str | None = _option("--cloud FILE", "Cloud to take points from (a wavy surface).")
    target_ms: float = _option(
        "--target-ms MS", "Latency target, from the time when a call was due (100).", 100.0
    )
    percentile: float = _option(
        "--percentile P", "Percent of calls that must meet the target (99).", 99.0
    )
    seconds: float = _option("--seconds S", "Duration of each rate (10).", 10.0)
    rate: list[float] | None = _option(
        "--rate PER_S",
        "Rate in calls per second; repeat it for several (rising until the target is missed).",
    )
    processes: int = _option(
        "--processes N", "Processes that send calls; one sends up to some 1,500 a second.", 1
    )
    as_json: bool = _option("--json", "Print JSON.", False)

    def __post_init__(self) -> None:
        check_positive("--target-ms", self.target_ms)
        check_positive("--seconds", self.seconds)
        check_positive("--processes", self.processes)
        for rate in self.rate or ():
            check_positive("--rate", rate)
        if not 1 <= self.percentile <= 100:
            raise InvalidArgumentError(
                f"--percentile must be from 1 to 100, got {self.percentile:g}", field="options"
            )
