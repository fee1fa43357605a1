"""Parser of a command line, and the options of the connection, before or after the command."""

import argparse
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

from farpoint._default import Connection

# By parameter: its flags with the name of the value, and the help text.
Options: TypeAlias = Mapping[str, tuple[str, str]]

# The token itself is no flag: other users could read it in the list of processes.
_CONNECTION: Options = {
    "server": (
        "--server TARGET",
        "HOST:PORT, dns:///HOST:PORT, unix:PATH or several HOST:PORT,HOST:PORT "
        "(FARPOINT_SERVER, else 127.0.0.1:50051).",
    ),
    "tls": ("--tls", "Use TLS (FARPOINT_TLS)."),
    "ca": ("--ca FILE", "PEM file of trusted authorities; implies --tls (FARPOINT_CA)."),
    "certificate": (
        "--certificate FILE",
        "PEM file of the client's certificate (FARPOINT_CERTIFICATE).",
    ),
    "key": ("--key FILE", "PEM file of its key (FARPOINT_KEY)."),
    "server_name": (
        "--server-name NAME",
        "Name in the server's certificate, if it differs (FARPOINT_SERVER_NAME).",
    ),
    "token_file": (
        "--token-file FILE",
        "File with a bearer token (FARPOINT_TOKEN_FILE; FARPOINT_TOKEN holds the token itself).",
    ),
}


class Parser(argparse.ArgumentParser):
    """Parser that leaves out options that are not given: their code has the defaults."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog,
            usage=f"{prog} [options]",
            description=description,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_connection(self) -> None:
        """Adds the options of the connection."""
        self.add_options(Connection, _CONNECTION, "server")

    def add_fields(self, target: type, title: str | None = None) -> None:
        """Adds the options that the fields of a dataclass describe, without its bases'."""
        own = inspect.get_annotations(target)
        options = {f.name: f.metadata["option"] for f in fields(target) if f.name in own}
        self.add_options(target, options, title)

    def add_options(
        self, target: Callable[..., Any], options: Options, title: str | None = None
    ) -> None:
        """Adds options for parameters of a function or class, with their types."""
        hints, parameters = get_type_hints(target), inspect.signature(target).parameters
        group = self.add_argument_group(title) if title else self
        for name, (words, text) in options.items():
            flags = [word for word in words.split() if word.startswith("-")]
            values = words.split()[len(flags) :]
            keywords = _keywords(hints[name], bool(flags))
            if values:
                keywords["metavar"] = values[0]
            if flags:
                keywords["dest"] = name
            else:
                is_optional = keywords.get("nargs") == "?"
                self.usage = f"{self.usage} {f'[{values[0]}]' if is_optional else values[0]}"
            if "{default:g}" in text:
                text = text.format(default=parameters[name].default)
            group.add_argument(*(flags or [name]), help=text.replace("%", "%%"), **keywords)

    def error(self, message: str) -> NoReturn:
        """Prints one line, like every failure."""
        self.exit(2, f"farpoint: {message} (see {self.prog} --help)\n")


def _keywords(kind: Any, is_flag: bool) -> dict[str, Any]:
    """Arguments of `add_argument` for a type."""
    if get_origin(kind) in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not types.NoneType)
        optional = {} if is_flag else {"nargs": "?"}
        return {**_keywords(inner, is_flag), **optional}
    if get_origin(kind) is list:
        return {"type": get_args(kind)[0], **({"action": "append"} if is_flag else {"nargs": "+"})}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    return {"action": "store_true"} if kind is bool else {"type": kind}


def split_connection(values: dict[str, Any]) -> dict[str, Any]:
    """Removes and returns the options of the connection."""
    return {name: values.pop(name) for name in _CONNECTION if name in values}
