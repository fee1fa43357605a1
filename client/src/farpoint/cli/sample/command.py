"""The options of `farpoint sample`."""

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from farpoint._channel import DEFAULT_TIMEOUT_S
from farpoint.cli.connection import Connection
from farpoint.cli.sample.inputs import STDIN
from farpoint.cli.sample.options import Amount, Options, parse_amount
from farpoint.cli.sample.plan import Task, plan_tasks
from farpoint.cli.sample.run import Pool, ThreadPool, run_tasks
from farpoint.errors import InvalidArgumentError
from farpoint.io.budget import SHARE, available_bytes
from farpoint.io.decoder import Bounds
from farpoint.io.options import ReadOptions

# More decoders than that have the server wait for none, and the disk for all.
MOST_WORKERS = 4


class Nonfinite(str, Enum):
    """What to do about rows with NaN or infinity."""

    reject = "reject"
    ignore = "ignore"


def sample(
    connection: Connection,
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Cloud files, folders of them, quoted patterns, paths of fsspec such as "
            "s3://bucket/scan.laz, or - for standard input.",
            metavar="IN...",
        ),
    ],
    samples: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--samples",
            help="Points to choose per cloud: 1024, or 5%; with --radius at most.",
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="R", help="Choose as many as it takes for no point to be farther from one."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="A file; a folder for several inputs; or - for JSON lines on stdout.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.png",
            help="Draw the cloud and the sample side by side; of several inputs, into a folder.",
        ),
    ] = None,
    start: Annotated[
        int | None, typer.Option(help="Row that is chosen first.", show_default="the first")
    ] = None,
    nonfinite: Annotated[
        Nonfinite, typer.Option(help="Rows with NaN or infinity: an error, or never chosen.")
    ] = Nonfinite.reject,
    skip_zero: Annotated[
        bool, typer.Option("--skip-zero", help="Never choose rows that are exactly (0, 0, 0).")
    ] = False,
    all_if_fewer: Annotated[
        bool,
        typer.Option("--all-if-fewer", help="Write a cloud with fewer than M points whole."),
    ] = False,
    indices: Annotated[
        bool,
        typer.Option(
            "--indices",
            help="Also write the row indices to OUT.indices.npy; without -o beside the input.",
        ),
    ] = False,
    recursive: Annotated[
        bool, typer.Option("-r", "--recursive", help="Look in the folders of a folder too.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out inputs whose outputs are there.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(metavar="SUFFIX", help="Format of the outputs in a folder, such as .ply."),
    ] = None,
    input_format: Annotated[
        str | None,
        typer.Option("--format", metavar="SUFFIX", help="Read the inputs as such, as in .laz."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Columns of a .bin, a plain array or a text: x,y,z,i,ring."
        ),
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="The array of an .npz that holds the points.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="The topic of a recording.")
    ] = None,
    message: Annotated[
        int, typer.Option(metavar="K", help="Which cloud of the topic, from 0.")
    ] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", help="Files in flight.", show_default="one per core, up to 4"),
    ] = None,
    decoder_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB", help="Memory that reading a file may take.", show_default="its share"
        ),
    ] = None,
    decoder_seconds: Annotated[
        float, typer.Option(help="Time that reading 100 MB of a file may take.")
    ] = 60.0,
    timeout: Annotated[
        float, typer.Option(help="Seconds that one request may take.")
    ] = DEFAULT_TIMEOUT_S,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Sample on a Ray cluster (RAY_ADDRESS) instead of a server."),
    ] = False,
    gpus: Annotated[
        float, typer.Option(help="With --ray: GPUs of each job, of one also a part.")
    ] = 0.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line.")
    ] = False,
) -> None:
    """Choose points of cloud files by farthest point sampling.

    The suffix of the output says its format. In the input's own format every attribute is kept.
    """
    workers = _workers(jobs)
    options = Options(
        amount=_amount(samples, radius),
        radius=radius,
        start=start,
        ignore_nonfinite=nonfinite is Nonfinite.ignore,
        skip_zero=skip_zero,
        all_if_fewer=all_if_fewer,
        indices=indices,
        as_json=as_json,
        resume=resume,
        recursive=recursive,
        to=_suffix(to),
        picture=picture,
        workers=workers,
        read=_read_options(input_format, columns, array, topic, message),
        bounds=Bounds(_memory_bytes(decoder_memory, workers), decoder_seconds),
    )
    tasks = plan_tasks(inputs, output, options)
    if ray:
        failed = run_tasks(_ray_pool(tasks, options, jobs, gpus), tasks, options)
    else:
        with connection.connect(timeout) as client:
            failed = run_tasks(ThreadPool(client, options), tasks, options)
    if failed:
        raise typer.Exit(1)


def _ray_pool(tasks: list[Task], options: Options, jobs: int | None, gpus: float) -> Pool:
    if any(task.to_stdout or task.source.location == STDIN for task in tasks):
        raise InvalidArgumentError("--ray takes files, and writes files", field="ray")
    if gpus < 0:
        raise InvalidArgumentError(f"--gpus must be 0 or more, got {gpus:g}", field="gpus")
    from farpoint.ray.folder import RayPool

    return RayPool(options, jobs, gpus)


def _amount(samples: str | None, radius: float | None) -> Amount:
    if samples is not None:
        return parse_amount(samples)
    if radius is None:
        raise InvalidArgumentError("-m, or --radius, says how many points to choose", field="m")
    return Amount(share=1.0)


def _read_options(
    suffix: str | None, columns: str | None, array: str | None, topic: str | None, message: int
) -> ReadOptions:
    names = None if columns is None else tuple(name.strip() for name in columns.split(","))
    try:
        return ReadOptions(_suffix(suffix), names, array, topic, message)
    except ValueError as error:
        raise InvalidArgumentError(f"--{error}", field="columns") from error


def _suffix(text: str | None) -> str | None:
    """With the dot that people leave out."""
    return None if text is None else f".{text.lstrip('.').lower()}"


def _workers(jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise InvalidArgumentError(f"--jobs must be 1 or more, got {jobs}", field="jobs")
    return jobs or min(os.cpu_count() or 1, MOST_WORKERS)


def _memory_bytes(gigabytes: float | None, workers: int) -> int:
    """For each decoder; 0 where nothing is known of the machine."""
    if gigabytes is not None:
        if gigabytes <= 0:
            raise InvalidArgumentError(
                f"--decoder-memory must be above 0, got {gigabytes:g}", field="decoder_memory"
            )
        return int(gigabytes * 1e9)
    available = available_bytes()
    return 0 if available is None else int(SHARE * available / workers)
