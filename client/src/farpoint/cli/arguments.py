"""Options of `farpoint sample` and `farpoint bench`, without their code."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from farpoint._connection.targets import DEFAULT_TIMEOUT_S
from farpoint.cli.connection import Options, Parser
from farpoint.errors import InvalidArgumentError

Nonfinite: TypeAlias = Literal["reject", "ignore"]
MethodName: TypeAlias = Literal["farthest-point", "voxel-grid", "random", "poisson-disk"]
# A mean is not a row of the file.
Select: TypeAlias = Literal["first", "nearest-mean"]


@dataclass(frozen=True, kw_only=True)
class ReadArguments:
    """Options for reading files."""

    input_format: str | None = None
    columns: str | None = None
    array: str | None = None
    topic: str | None = None
    message: int = 0


@dataclass(frozen=True, kw_only=True)
class SampleArguments(ReadArguments):
    """The parsed command line; the tables below describe each field."""

    inputs: list[str]
    samples: str | None = None
    radius: float | None = None
    method: MethodName = "farthest-point"
    voxel_size: float | None = None
    select: Select | None = None
    seed: int | None = None
    output: str | None = None
    picture: Path | None = None
    start: int | None = None
    nonfinite: Nonfinite = "reject"
    skip_zero: bool = False
    all_if_fewer: bool = False
    indices: bool = False
    recursive: bool = False
    resume: bool = False
    to: str | None = None
    jobs: int | None = None
    decoder_memory: float | None = None
    decoder_seconds: float = 60.0
    timeout: float = DEFAULT_TIMEOUT_S
    as_json: bool = False
    quiet: bool = False


_INPUTS: Options = {
    "inputs": (
        "IN...",
        "Cloud files, folders, quoted patterns, or - for standard input.",
    )
}
_POINTS: Options = {
    "samples": (
        "-m --samples M",
        "Samples per cloud: 1024 or 5%; with --radius the maximum.",
    ),
    "radius": ("--radius R", "Sample until no point is farther than R from a sample."),
    "method": ("--method", "Sampling method (farthest-point)."),
    "voxel_size": ("--voxel-size S", "Edge length of a voxel."),
    "select": ("--select", "Row that represents a voxel (first)."),
    "seed": ("--seed N", "Seed of random rows (0)."),
    "start": ("--start ROW", "Row of the first sample (0)."),
    "nonfinite": (
        "--nonfinite",
        "Rows with NaN or infinity: an error (reject) or never sampled (ignore).",
    ),
    "skip_zero": ("--skip-zero", "Never sample rows that are exactly (0, 0, 0)."),
    "all_if_fewer": ("--all-if-fewer", "Write all points of a cloud that has fewer than M."),
}
_OUTPUT: Options = {
    "output": (
        "-o --output OUT",
        "Output file; a folder for several inputs; - for JSON lines on stdout.",
    ),
    "to": ("--to SUFFIX", "Format of the outputs in a folder, such as .ply."),
    "indices": (
        "--indices",
        "Also write the row indices to OUT.indices.npy; without -o next to the input.",
    ),
    "picture": (
        "--picture OUT.png",
        "Draw the cloud and the sample side by side; a folder for several inputs.",
    ),
    "resume": ("--resume", "Skip inputs whose outputs exist."),
    "as_json": ("--json", "Print JSON, one object per line, failures included."),
    "quiet": ("-q --quiet", "Print failures only."),
}
_READ: Options = {
    "input_format": ("--format SUFFIX", "Format of the inputs, such as .laz."),
    "columns": ("--columns NAMES", "Columns of a .bin, a plain array or a text: x,y,z,i,ring."),
    "array": ("--array NAME", "Array of an .npz with the points."),
    "topic": ("--topic NAME", "Topic of a recording."),
    "message": ("--message K", "Index of the topic's message, from 0."),
}
_WORK: Options = {
    "recursive": ("-r --recursive", "Include subfolders."),
    "jobs": ("-j --jobs N", "Files at a time (one per core, up to 4)."),
    "decoder_memory": (
        "--decoder-memory GB",
        "Memory limit for reading one file (a share of half of the free memory).",
    ),
    "decoder_seconds": (
        "--decoder-seconds S",
        "Seconds to read 100 MB of a file (60).",
    ),
    "timeout": ("--timeout S", "Timeout of one request in seconds (60)."),
}


def add_options(parser: Parser) -> None:
    """The options of `SampleArguments`."""
    parser.add_options(SampleArguments, _INPUTS)
    for title, options in (("points", _POINTS), ("output", _OUTPUT), ("input", _READ)):
        parser.add_options(SampleArguments, options, title)
    parser.add_options(SampleArguments, _WORK, "work")


def add_read_options(parser: Parser) -> None:
    """The options of `ReadArguments`."""
    parser.add_options(ReadArguments, _READ, "input")


@dataclass(frozen=True)
class BenchArguments:
    """The parsed command line; BENCH describes each field."""

    sizes: list[str] | None = None
    cloud: str | None = None
    target_ms: float = 100.0
    percentile: float = 99.0
    seconds: float = 10.0
    rate: list[float] | None = None
    processes: int = 1
    as_json: bool = False

    def __post_init__(self) -> None:
        values = (self.target_ms, self.seconds, self.processes)
        if min(*values, *(self.rate or [1])) <= 0 or not 1 <= self.percentile <= 100:
            raise InvalidArgumentError(
                "--target-ms, --seconds, --rate and --processes must be above 0, "
                f"--percentile from 1 to 100, got {self}",
                field="options",
            )


BENCH: Options = {
    "sizes": (
        "--size POINTS:SAMPLES[:SHARE]",
        "Size of a request (16384:1024); repeat it for a mix.",
    ),
    "cloud": ("--cloud FILE", "Cloud to take points from (a wavy surface)."),
    "target_ms": ("--target-ms MS", "Latency target, from the time when a call was due (100)."),
    "percentile": ("--percentile P", "Percent of calls that must meet the target (99)."),
    "seconds": ("--seconds S", "Duration of each rate (10)."),
    "rate": (
        "--rate PER_S",
        "Rate in calls per second; repeat it for several (rising until the target is missed).",
    ),
    "processes": (
        "--processes N",
        "Processes that send calls; one sends up to some 1,500 a second.",
    ),
    "as_json": ("--json", "Print JSON."),
}
