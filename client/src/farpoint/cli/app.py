"""The typer application `farpoint`: its subcommands, their options and exit codes."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from farpoint._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_S
from farpoint.cli import connection
from farpoint.cli import encode as encoder
from farpoint.cli import memory as memory_view
from farpoint.cli.connection import connect, connect_channel
from farpoint.cli.health import check_health
from farpoint.cli.sample import Options, plan_tasks, run_tasks
from farpoint.errors import CloudFileError, FarpointError, InvalidArgumentError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Samples point clouds with a Farpoint server.\n\n"
    "Exit codes: 0 done; 1 the server failed or is not serving, or one of several files failed; "
    "2 an argument or the input is wrong.",
)
app.callback()(connection.options)

Server = Annotated[
    str,
    typer.Option(envvar="FARPOINT_SERVER", help="HOST:PORT, dns:///HOST:PORT or unix:PATH."),
]
Timeout = Annotated[float, typer.Option(help="Seconds that one request may take.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class Nonfinite(str, Enum):
    """What to do about rows with NaN or infinity."""

    reject = "reject"
    ignore = "ignore"


@app.command()
def sample(
    context: typer.Context,
    inputs: Annotated[list[Path], typer.Argument(help="Cloud files.", metavar="IN...")],
    samples: Annotated[int, typer.Option("-m", "--samples", help="Points to choose per cloud.")],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="A file; a folder for several inputs; or - for JSON lines on stdout.",
        ),
    ],
    server: Server = DEFAULT_TARGET,
    start: Annotated[int, typer.Option(help="Row that is chosen first.")] = 0,
    nonfinite: Annotated[
        Nonfinite, typer.Option(help="Rows with NaN or infinity: an error, or never chosen.")
    ] = Nonfinite.reject,
    indices: Annotated[
        bool, typer.Option("--indices", help="Also write the row indices to OUT.indices.npy.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Choose points of cloud files by farthest point sampling.

    The suffix of the output says its format. In the input's own format every attribute is kept.
    """
    options = Options(samples, start, nonfinite.value, indices, as_json)
    with _clean_failure():
        tasks = plan_tasks(inputs, output, options)
        with connect(context, server, timeout) as client:
            failed = run_tasks(client, tasks, options)
    if failed:
        raise typer.Exit(1)


@app.command()
def encode(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="Cloud file.", metavar="IN")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File of arrays: OUT.npz.")],
    server: Server = DEFAULT_TARGET,
    model: Annotated[str, typer.Option(help="A loaded model; empty is the first.")] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="The file's attribute that the model takes; repeat it for several."),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Run a model over a cloud file, and write the points and features of each of its stages."""
    with _clean_failure():
        encoder.check_output(output)
        with connect(context, server, timeout) as client:
            encoding = encoder.run(client, source, output, model, attribute or [])
    encoder.report(source, output, encoding, as_json=as_json)


@app.command()
def info(
    context: typer.Context,
    server: Server = DEFAULT_TARGET,
    timeout: Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Show what a server is and what it accepts."""
    with _clean_failure(), connect(context, server, timeout) as client:
        found = client.server_info()
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found)))
        return
    typer.echo(f"farpoint-server {found.version}, torch {found.torch_version}")
    for device in found.devices:
        typer.echo(f"device   {device.name}: {device.description}")
    typer.echo(f"methods  {', '.join(found.methods)}")
    typer.echo(f"points   {', '.join(found.point_types)}")
    for name, limit in dataclasses.asdict(found.limits).items():
        typer.echo(f"limit    {name.replace('_', ' ')}: {limit}")


@app.command()
def health(
    context: typer.Context,
    server: Server = DEFAULT_TARGET,
    service: Annotated[str, typer.Option(help="A service's full name; empty is all.")] = "",
    timeout: Timeout = 5.0,
) -> None:
    """Ask a server whether it is serving: exit code 0 if so, else 1."""
    with _clean_failure(), closing(connect_channel(context, server)) as channel:
        status = check_health(channel, service, timeout)
    typer.echo(status)
    raise typer.Exit(0 if status == "SERVING" else 1)


@app.command()
def memory(
    context: typer.Context,
    server: Server = DEFAULT_TARGET,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, until Ctrl-C.")] = False,
    trim: Annotated[
        bool, typer.Option("--trim", help="First have the server give cached memory back.")
    ] = False,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save torch's memory snapshot, for https://pytorch.org/memory_viz.",
        ),
    ] = None,
    timeout: Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Show what the memory of a server's devices is used for."""
    with _clean_failure(), connect(context, server, timeout) as client:
        if trim:
            memory_view.trim(client)
        if snapshot is not None:
            memory_view.save_snapshot(client, snapshot)
        elif watch:
            memory_view.watch(client, as_json=as_json)
        else:
            memory_view.show(client.memory(), as_json=as_json)


@contextmanager
def _clean_failure() -> Iterator[None]:
    """Expected failures end in one line and an exit code."""
    try:
        yield
    except FarpointError as error:
        typer.echo(f"farpoint: {error}", err=True)
        wrong_input = isinstance(error, (InvalidArgumentError, CloudFileError))
        raise typer.Exit(2 if wrong_input else 1) from error
