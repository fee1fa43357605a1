"""The commands and their options."""

import dataclasses
import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from farpoint._channel import DEFAULT_TIMEOUT_S
from farpoint.cli import encode as encoder
from farpoint.cli import memory as memory_view
from farpoint.cli import models as model_view
from farpoint.cli.bench.command import bench
from farpoint.cli.connection import Connection, with_connection
from farpoint.cli.failures import clean_failure
from farpoint.cli.health import check_health
from farpoint.cli.sample.command import sample

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Samples point clouds with a Farpoint server.\n\n"
    "Exit codes: 0 done; 1 the server failed or is not serving, or one of several files failed; "
    "2 an argument or the input is wrong.",
)

Timeout = Annotated[float, typer.Option(help="Seconds that one request may take.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Registers a command with the options of the connection; expected failures end cleanly."""

    @functools.wraps(function)
    def run(context: typer.Context, **values: object) -> None:
        with clean_failure(context.obj.target):
            function(context.obj, **values)

    app.command()(with_connection(run, from_environment=False))
    return function


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farpoint {version('farpoint')}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Stands before the commands."""


app.callback()(with_connection(_options, from_environment=True))
command(sample)
command(bench)


@command
def encode(
    connection: Connection,
    source: Annotated[Path, typer.Argument(help="Cloud file.", metavar="IN")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File of arrays: OUT.npz.")],
    model: Annotated[str, typer.Option(help="A loaded model; empty is the first.")] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="The file's attribute that the model takes; repeat it for several."),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Run a model over a cloud file, and write the points and features of each of its stages."""
    encoder.check_output(output)
    with connection.connect(timeout) as client:
        encoding = encoder.run(client, source, output, model, attribute or [])
    encoder.report(source, output, encoding, as_json=as_json)


@command
def models(connection: Connection, timeout: Timeout = 10.0, as_json: Json = False) -> None:
    """Show the models that a server has loaded."""
    with connection.connect(timeout) as client:
        model_view.show(client.list_models(), as_json=as_json)


@command
def load(
    connection: Connection,
    name: Annotated[str, typer.Argument(help="What `encode` or a client is to call the model.")],
    path: Annotated[
        str | None,
        typer.Option(help="A file on the server's machine; else the weights it has."),
    ] = None,
    timeout: Timeout = 120.0,
    as_json: Json = False,
) -> None:
    """Have a server load a model, and wait until it is ready."""
    with connection.connect(timeout) as client:
        model_view.load(client, name, path, as_json=as_json)


@command
def unload(
    connection: Connection,
    name: Annotated[str, typer.Argument(help="A loaded model.")],
    timeout: Timeout = 10.0,
) -> None:
    """Unload a model; calls that use it finish."""
    with connection.connect(timeout) as client:
        client.unload_model(name)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def export(context: typer.Context) -> None:
    """Write a .pt2 archive that a server can load from an nn.Module (needs farpoint-server)."""
    if importlib.util.find_spec("farpoint_models") is None:
        typer.echo("farpoint export: it needs torch: pip install farpoint-server", err=True)
        raise typer.Exit(2)
    # A process of its own: this one never loads torch.
    ended = subprocess.run([sys.executable, "-m", "farpoint_models.programs", *context.args])
    raise typer.Exit(ended.returncode)


@command
def info(connection: Connection, timeout: Timeout = 10.0, as_json: Json = False) -> None:
    """Show what a server is and what it accepts."""
    with connection.connect(timeout) as client:
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


@command
def health(
    connection: Connection,
    service: Annotated[str, typer.Option(help="A service's full name; empty is all.")] = "",
    timeout: Timeout = 5.0,
) -> None:
    """Ask a server whether it is serving: exit code 0 if so, else 1."""
    with closing(connection.open_channel()) as channel:
        status = check_health(channel, service, timeout)
    typer.echo(status)
    raise typer.Exit(0 if status == "SERVING" else 1)


@command
def memory(
    connection: Connection,
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
    with connection.connect(timeout) as client:
        if trim:
            memory_view.trim(client)
        if snapshot is not None:
            memory_view.save_snapshot(client, snapshot)
        elif watch:
            memory_view.watch(client, as_json=as_json)
        else:
            memory_view.show(client.memory(), as_json=as_json)
