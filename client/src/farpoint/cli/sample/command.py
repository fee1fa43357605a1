"""The options of `farpoint sample`; the code behind them is imported when the command runs."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import typer
from typer import Argument, Option

from farpoint._connection.targets import DEFAULT_TIMEOUT_S
from farpoint.cli.connection import Connection


class Nonfinite(str, Enum):
    """Policies for rows with NaN or infinity."""

    reject = "reject"
    ignore = "ignore"


class MethodName(str, Enum):
    """Sampling methods."""

    farthest_point = "farthest-point"
    voxel_grid = "voxel-grid"
    random = "random"
    poisson_disk = "poisson-disk"


class Select(str, Enum):
    """The row that stands for a voxel; a mean is no row of the file."""

    first = "first"
    nearest_mean = "nearest-mean"


@dataclass(frozen=True)
class Arguments:
    """The command line as it was given; OPTIONS describes each field."""

    inputs: list[str]
    samples: str | None = None
    radius: float | None = None
    method: MethodName = MethodName.farthest_point
    voxel_size: float | None = None
    select: Select | None = None
    seed: int | None = None
    output: str | None = None
    picture: Path | None = None
    start: int | None = None
    nonfinite: Nonfinite = Nonfinite.reject
    skip_zero: bool = False
    all_if_fewer: bool = False
    indices: bool = False
    recursive: bool = False
    resume: bool = False
    to: str | None = None
    input_format: str | None = None
    columns: str | None = None
    array: str | None = None
    topic: str | None = None
    message: int = 0
    jobs: int | None = None
    decoder_memory: float | None = None
    decoder_seconds: float = 60.0
    timeout: float = DEFAULT_TIMEOUT_S
    ray: bool = False
    gpus: float = 0.0
    as_json: bool = False


OPTIONS = {
    "inputs": Argument(
        metavar="IN...",
        help="Cloud files, folders of them, quoted patterns, paths of fsspec such as "
        "s3://bucket/scan.laz, or - for standard input.",
    ),
    "samples": Option(
        *("-m", "--samples"), help="Points to choose per cloud: 1024, or 5%; with --radius at most."
    ),
    "radius": Option(metavar="R", help="Choose points until none is farther than R from one."),
    "method": Option(help="How points are chosen."),
    "voxel_size": Option(metavar="S", help="Side of the cubes of a voxel grid."),
    "select": Option(help="Row of a voxel.", show_default="first"),
    "seed": Option(help="Of random rows.", show_default="0"),
    "output": Option(
        *("-o", "--output"),
        help="A file; a folder for several inputs; or - for JSON lines on stdout.",
    ),
    "picture": Option(
        metavar="OUT.png",
        help="Draw the cloud and the sample side by side; of several inputs, into a folder.",
    ),
    "start": Option(help="Row that is chosen first.", show_default="the first"),
    "nonfinite": Option(help="Rows with NaN or infinity: an error, or never chosen."),
    "skip_zero": Option("--skip-zero", help="Never choose rows that are exactly (0, 0, 0)."),
    "all_if_fewer": Option("--all-if-fewer", help="Write a cloud with fewer than M points whole."),
    "indices": Option(
        "--indices",
        help="Also write the row indices to OUT.indices.npy; without -o beside the input.",
    ),
    "recursive": Option("-r", "--recursive", help="Look in the folders of a folder too."),
    "resume": Option("--resume", help="Leave out inputs whose outputs are there."),
    "to": Option(metavar="SUFFIX", help="Format of the outputs in a folder, such as .ply."),
    "input_format": Option("--format", metavar="SUFFIX", help="Format of the inputs, as .laz."),
    "columns": Option(
        metavar="NAMES", help="Columns of a .bin, a plain array or a text: x,y,z,i,ring."
    ),
    "array": Option(metavar="NAME", help="The array of an .npz that holds the points."),
    "topic": Option(metavar="NAME", help="The topic of a recording."),
    "message": Option(metavar="K", help="Which cloud of the topic, from 0."),
    "jobs": Option("-j", "--jobs", help="Files in flight.", show_default="one per core, up to 4"),
    "decoder_memory": Option(
        metavar="GB", help="Memory that reading a file may take.", show_default="its share of half"
    ),
    "decoder_seconds": Option(help="Time that reading 100 MB of a file may take."),
    "timeout": Option(help="Seconds that one request may take."),
    "ray": Option("--ray", help="Sample on a Ray cluster (RAY_ADDRESS) instead of a server."),
    "gpus": Option(help="With --ray: GPUs of each job; fractions share one."),
    "as_json": Option("--json", help="Print JSON, one object per line."),
}


def sample(connection: Connection, arguments: Arguments) -> None:
    """Choose points of cloud files by farthest point sampling, or by another method.

    The suffix of the output says its format. In the input's own format every attribute is kept.
    """
    from farpoint.cli.sample.run import run

    if run(connection, arguments):
        raise typer.Exit(1)
