"""Commands and their options; a command's code is imported when it runs."""

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from farpoint._default import Connection
from farpoint.cli import arguments, failures
from farpoint.cli.connection import Options, Parser, split_connection
from farpoint.errors import FarpointError

_HELP = "Samples point clouds with a Farpoint server."
_EXIT_CODES = """\
exit codes:
  0 done; 1 the server failed or is not serving, or one of several files failed;
  2 an argument or the input is invalid; 130 interrupted"""
_JSON = ("--json", "Print JSON, one object per line.")
_TIMEOUT = ("--timeout S", "Timeout of one request in seconds ({default:g}).")
Command = Callable[..., int | None]


def sample(connection: Connection, **values: Any) -> int:
    """Sample points of cloud files by farthest point sampling or another method.

    The suffix of the output selects its format. The input's own format keeps every attribute.

    examples:
      farpoint sample scan.laz -m 4096 -o sampled.laz
      farpoint sample scans/ -m 5% -o sampled/ --to ply
    """
    from farpoint.cli.sample.run import run

    return int(run(connection, arguments.SampleArguments(**values)) > 0)


def models(connection: Connection, timeout: float = 10.0, as_json: bool = False) -> None:
    """Show the models that are loaded in a server."""
    from farpoint.cli.server import show

    with connection.connect(timeout) as client:
        show(client.list_models(), as_json=as_json)


def load(
    connection: Connection,
    name: str,
    path: str | None = None,
    timeout: float = 120.0,
    as_json: bool = False,
) -> None:
    """Load a model into a server and wait until it is ready.

    --server is the address that the server has as --admin-listen.
    """
    from farpoint.cli.server import show

    with connection.connect(timeout) as client:
        show([client.load_model(name, path)], as_json=as_json)


def unload(connection: Connection, name: str, timeout: float = 10.0) -> None:
    """Unload a model; calls that use it finish.

    --server is the address that the server has as --admin-listen.
    """
    with connection.connect(timeout) as client:
        client.unload_model(name)


def info(
    connection: Connection,
    file: Path | None = None,
    timeout: float = 10.0,
    as_json: bool = False,
    **read: Any,
) -> None:
    """Show a server's version, devices, methods and limits, or describe a cloud file."""
    if file is not None:
        from farpoint.cli.file_info import show_file

        show_file(file, arguments.ReadArguments(**read), as_json=as_json)
        return
    from farpoint.cli.server import show_info

    with connection.connect(timeout) as client:
        show_info(client.server_info(), as_json=as_json)


def health(
    connection: Connection, service: str = "", timeout: float = 5.0, as_json: bool = False
) -> int:
    """Check whether a server is serving: exit code 0 if so, else 1."""
    from farpoint.cli.server import show_health

    return show_health(connection, service, timeout, as_json=as_json)


def memory(
    connection: Connection, trim: bool = False, timeout: float = 10.0, as_json: bool = False
) -> None:
    """Show how the memory of a server's devices is used.

    --server is the address that the server has as --admin-listen.
    """
    from farpoint.cli import server

    with connection.connect(timeout) as client:
        if trim:
            server.trim(client, as_json=as_json)
        server.show_memory(client.memory(), as_json=as_json)


def bench(connection: Connection, **values: Any) -> None:
    """Send calls at rising rates and find the rate that a server sustains at a latency target.

    Calls are sent when they are due, as by many independent callers, however long answers
    take. This is a test under full load: it slows down other callers.
    """
    from farpoint.cli.bench import run

    run(connection, arguments.BenchArguments(**values))


def export(words: list[str]) -> int:
    """Write a .pt2 archive of an nn.Module that a server can load (needs farpoint-server)."""
    import importlib.util
    import subprocess

    if importlib.util.find_spec("farpoint_models") is None:
        print("farpoint export needs farpoint-server: pip install farpoint-server", file=sys.stderr)
        return 2
    # In another process: this one never loads torch.
    return subprocess.run([sys.executable, "-m", "farpoint_models.programs", *words]).returncode


_ADMINISTRATION = (load, unload, memory)
_COMMON: Options = {"timeout": _TIMEOUT, "as_json": _JSON}
_OPTIONS: dict[Command, Options] = {
    models: _COMMON,
    load: {
        "name": ("NAME", "Name of the model in later calls."),
        "path": ("--path FILE", "File on the server's machine (the shipped encoder)."),
        **_COMMON,
    },
    unload: {"name": ("NAME", "Name of the model."), "timeout": _TIMEOUT},
    info: {"file": ("FILE", "Cloud file; without one, the server."), **_COMMON},
    health: {"service": ("--service NAME", "Full name of a service (all)."), **_COMMON},
    memory: {"trim": ("--trim", "First make the server return cached memory."), **_COMMON},
}
_FIELDS: dict[Command, list[tuple[type, str | None]]] = {
    sample: [
        (arguments.SampleArguments, None),
        (arguments.PointArguments, "points"),
        (arguments.OutputArguments, "output"),
        (arguments.ReadArguments, "input"),
        (arguments.WorkArguments, "work"),
    ],
    bench: [(arguments.BenchArguments, None)],
    info: [(arguments.ReadArguments, "input")],
}
_COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__: command
    for command in (sample, info, health, models, load, unload, memory, bench, export)
}


def main(words: Sequence[str]) -> int:
    """Runs a command line and returns its exit code."""
    top = _top_parser()
    if not words:
        top.print_help()
        return 2
    if "--version" in words[:1]:
        from importlib.metadata import version

        print(f"farpoint {version('farpoint')}")
        return 0
    given = vars(top.parse_args(words))
    name, *rest = given.pop("command")
    if name not in _COMMANDS:
        top.error(f"unknown command {name!r}")
    return export(rest) if name == "export" else _run(name, rest, given)


def _run(name: str, words: list[str], outer: dict[str, Any]) -> int:
    command = _COMMANDS[name]
    parser = Parser(f"farpoint {name}", inspect.cleandoc(command.__doc__ or ""))
    if command in _OPTIONS:
        parser.add_options(command, _OPTIONS[command])
    for kind, title in _FIELDS.get(command, ()):
        parser.add_fields(kind, title)
    parser.add_connection()
    parsed = vars(parser.parse_intermixed_args(words))
    values = {name: value for name, value in parsed.items() if str(value) != argparse.SUPPRESS}
    try:
        options = {**outer, **split_connection(values)}
        return command(Connection.from_environment(**options), **values) or 0
    except FarpointError as error:
        in_json = values.get("as_json", False)
        return failures.report(error, in_json=in_json, is_admin=command in _ADMINISTRATION)


def _top_parser() -> Parser:
    lines = (
        f"  {name:8} {inspect.cleandoc(command.__doc__ or '').splitlines()[0]}"
        for name, command in _COMMANDS.items()
    )
    listed = "\n".join(lines)
    top = Parser("farpoint", f"{_HELP}\n\ncommands:\n{listed}\n\n{_EXIT_CODES}")
    top.usage = "farpoint [options] COMMAND ... (options of one: farpoint COMMAND --help)"
    top.add_argument("command", nargs=argparse.PARSER, help=argparse.SUPPRESS)
    top.add_argument("--version", action="store_true", help="Show the version.")
    top.add_connection()
    return top
