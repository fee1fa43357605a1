"""The commands; the code of one is imported when it runs."""

import argparse
import inspect
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from farpoint._default import Connection
from farpoint.cli import arguments, failures
from farpoint.cli.arguments import Parser
from farpoint.errors import FarpointError

_HELP = "Samples point clouds with a Farpoint server."
_EXIT_CODES = """\
exit codes:
  0 done; 1 the server failed or is not serving, or one of several files failed;
  2 an argument or the input is invalid; 130 interrupted"""


def sample(connection: Connection, given: Namespace) -> int:
    """Sample points of cloud files by farthest point sampling or another method.

    The suffix of the output selects its format. The input's own format keeps every attribute.

    examples:
      farpoint sample scan.laz -m 4096 -o sampled.laz
      farpoint sample scans/ -m 5% -o sampled/ --to ply
    """
    from farpoint.cli.sample.run import run

    return int(run(connection, given) > 0)


def info(connection: Connection, given: Namespace) -> None:
    """Show a server's version, devices, methods and limits, or describe a cloud file."""
    if given.file is not None:
        from farpoint.cli.file_info import show_file

        show_file(given)
        return
    from farpoint.cli.server import show_info

    with connection.connect(given.timeout) as client:
        show_info(client.server_info(), as_json=given.as_json)


def health(connection: Connection, given: Namespace) -> int:
    """Check whether a server is serving: exit code 0 if so, else 1."""
    from farpoint.cli.server import show_health

    return show_health(connection, given.service, given.timeout, as_json=given.as_json)


def models(connection: Connection, given: Namespace) -> None:
    """Show the models that are loaded in a server."""
    from farpoint.cli.server import show

    with connection.connect(given.timeout) as client:
        show(client.list_models(), as_json=given.as_json)


def load(connection: Connection, given: Namespace) -> None:
    """Load a model into a server and wait until it is ready.

    --server is the address that the server has as --admin-listen.
    """
    from farpoint.cli.server import show

    with connection.connect(given.timeout) as client:
        show([client.load_model(given.name, given.path)], as_json=given.as_json)


def unload(connection: Connection, given: Namespace) -> None:
    """Unload a model; calls that use it finish.

    --server is the address that the server has as --admin-listen.
    """
    with connection.connect(given.timeout) as client:
        client.unload_model(given.name)


def memory(connection: Connection, given: Namespace) -> None:
    """Show how the memory of a server's devices is used.

    --server is the address that the server has as --admin-listen.
    """
    from farpoint.cli import server

    with connection.connect(given.timeout) as client:
        if given.trim:
            server.trim(client, as_json=given.as_json)
        server.show_memory(client.memory(), as_json=given.as_json)


def export(words: list[str]) -> int:
    """Write a .pt2 archive of an nn.Module that a server can load (needs farpoint-server)."""
    import importlib.util
    import subprocess

    if importlib.util.find_spec("farpoint_models") is None:
        print("farpoint export needs farpoint-server: pip install farpoint-server", file=sys.stderr)
        return 2
    # In another process: this one never loads torch.
    return subprocess.run([sys.executable, "-m", "farpoint_models.programs", *words]).returncode


# Each with its options and positional arguments.
_COMMANDS: dict[Callable[..., Any], tuple[Callable[[Parser], None], str]] = {
    sample: (arguments.add_sample, "IN..."),
    info: (arguments.add_info, "[FILE]"),
    health: (arguments.add_health, ""),
    models: (arguments.add_common, ""),
    load: (arguments.add_load, "NAME"),
    unload: (arguments.add_unload, "NAME"),
    memory: (arguments.add_memory, ""),
    export: (lambda _: None, ""),
}
_ADMINISTRATION = (load, unload, memory)


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
    command = next((command for command in _COMMANDS if command.__name__ == name), None)
    if command is None:
        top.error(f"unknown command {name!r}")
    return export(rest) if command is export else _run(command, rest, given)


def _run(command: Callable[..., int | None], words: list[str], outer: dict[str, Any]) -> int:
    add_options, positional = _COMMANDS[command]
    name = f"farpoint {command.__name__}"
    parser = Parser(name, inspect.cleandoc(command.__doc__ or ""), positional)
    add_options(parser)
    arguments.add_connection(parser)
    given = parser.parse_intermixed_args(words)
    options = {**outer, **vars(given)}
    names = options.keys() & Connection.__dataclass_fields__.keys()
    try:
        connection = Connection.from_environment(**{name: options[name] for name in names})
        return command(connection, given) or 0
    except FarpointError as error:
        in_json = getattr(given, "as_json", False)
        return failures.report(error, in_json=in_json, is_admin=command in _ADMINISTRATION)


def _top_parser() -> Parser:
    lines = (
        f"  {command.__name__:8} {inspect.cleandoc(command.__doc__ or '').splitlines()[0]}"
        for command in _COMMANDS
    )
    listed = "\n".join(lines)
    top = Parser("farpoint", f"{_HELP}\n\ncommands:\n{listed}\n\n{_EXIT_CODES}")
    top.usage = "farpoint [options] COMMAND ... (options of one: farpoint COMMAND --help)"
    top.add_argument("command", nargs=argparse.PARSER, help=argparse.SUPPRESS)
    top.add_argument("--version", action="store_true", help="Show the version.")
    arguments.add_connection(top)
    return top
