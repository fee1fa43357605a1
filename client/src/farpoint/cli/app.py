"""The commands and their options; the code behind them is imported when one runs."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from farpoint._connection.targets import DEFAULT_TIMEOUT_S
from farpoint.cli.bench import command as bench
from farpoint.cli.connection import Connection, with_connection, with_fields
from farpoint.cli.failures import clean_failure
from farpoint.cli.sample import command as sample

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
        with clean_failure():
            function(context.obj, **values)

    app.command()(with_connection(run, from_environment=False))
    return function


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

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
command(with_fields(sample.sample, sample.Arguments, sample.OPTIONS))
command(with_fields(bench.bench, bench.Arguments, bench.OPTIONS))


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
    from farpoint.cli import server

    server.check_output(output)
    with connection.connect(timeout) as client:
        server.encode(client, source, output, model, attribute or [], as_json=as_json)


@command
def models(connection: Connection, timeout: Timeout = 10.0, as_json: Json = False) -> None:
    """Show the models that a server has loaded."""
    from farpoint.cli.server import show

    with connection.connect(timeout) as client:
        show(client.list_models(), as_json=as_json)


@command
def load(
    connection: Connection,
    name: Annotated[str, typer.Argument(help="Name of the model in later calls.")],
    path: Annotated[
        str | None,
        typer.Option(help="A file on the server's machine; else the weights it has."),
    ] = None,
    timeout: Timeout = 120.0,
    as_json: Json = False,
) -> None:
    """Have a server load a model, and wait until it is ready."""
    from farpoint.cli.server import show

    with connection.connect(timeout) as client:
        show([client.load_model(name, path)], as_json=as_json)


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
    """Write a .pt2 archive of an nn.Module that a server can load (needs farpoint-server)."""
    import importlib.util
    import subprocess
    import sys

    if importlib.util.find_spec("farpoint_models") is None:
        typer.echo("farpoint export: it needs torch: pip install farpoint-server", err=True)
        raise typer.Exit(2)
    # A process of its own: this one never loads torch.
    ended = subprocess.run([sys.executable, "-m", "farpoint_models.programs", *context.args])
    raise typer.Exit(ended.returncode)


@command
def info(connection: Connection, timeout: Timeout = 10.0, as_json: Json = False) -> None:
    """Show the server's version, devices, methods and limits."""
    from farpoint.cli.server import show_info

    with connection.connect(timeout) as client:
        show_info(client.server_info(), as_json=as_json)


@command
def health(
    connection: Connection,
    service: Annotated[str, typer.Option(help="A service's full name; empty is all.")] = "",
    timeout: Timeout = 5.0,
) -> None:
    """Ask a server whether it is serving: exit code 0 if so, else 1."""
    from farpoint.cli.server import check_health

    status = check_health(connection, service, timeout)
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
    """Show how the memory of a server's devices is used."""
    from farpoint.cli import memory as view

    with connection.connect(timeout) as client:
        if trim:
            view.trim(client)
        if snapshot is not None:
            view.save_snapshot(client, snapshot)
        elif watch:
            view.watch(client, as_json=as_json)
        else:
            view.show(client.memory(), as_json=as_json)
