"""Server, TLS and token options, which may stand before the command or behind it."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from farpoint._connection.targets import DEFAULT_TARGET, checked_target
from farpoint.errors import InvalidArgumentError

if TYPE_CHECKING:  # gRPC is loaded by the commands that need it
    from farpoint._client import Client
    from farpoint._connection.security import Security, Tls

# Never a flag: others on the machine could read it from the list of processes.
TOKEN_VARIABLE = "FARPOINT_TOKEN"

Text = str | None
File = Path | None
_OPTIONS: dict[str, tuple[Any, str]] = {
    "server": (Text, "HOST:PORT, dns:///HOST:PORT, unix:PATH or several HOST:PORT,HOST:PORT."),
    "tls": (bool | None, "Use TLS."),
    "ca": (File, "PEM file of trusted authorities; implies --tls."),
    "certificate": (File, "PEM file of the client's certificate."),
    "key": (File, "PEM file of its key."),
    "server_name": (Text, "Name in the server's certificate, if another."),
    "token_file": (
        File,
        f"File with a bearer token. The variable {TOKEN_VARIABLE} holds the token itself.",
    ),
}


@dataclass(frozen=True)
class Connection:
    """The options as they were given; None where they were not."""

    server: str | None = None
    tls: bool | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    token_file: Path | None = None

    @property
    def target(self) -> str:
        """The server's address."""
        return checked_target(self.server or DEFAULT_TARGET)

    def connect(self, timeout: float) -> "Client":
        """A client of the server."""
        from farpoint._client import Client

        return Client(self.target, timeout=timeout, tls=self._tls(), token=self._token())

    def security(self) -> "Security":
        """For channels to the server that belong to no client."""
        from farpoint._connection.security import read_security

        return read_security(self.target, self._tls(), self._token())

    def _tls(self) -> "Tls | bool":
        from farpoint._connection.security import Tls

        files = (self.ca, self.certificate, self.key, self.server_name)
        return Tls(*files) if self.tls or any(files) else False

    def _token(self) -> str | None:
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise InvalidArgumentError(
                f"token file {self.token_file}: {error.strerror}", field="token"
            ) from error


def with_connection(command: Callable[..., None], *, from_environment: bool) -> Callable[..., None]:
    """Adds the options to a command, and keeps their values in the context.

    Args:
        command: takes a `typer.Context` first; `context.obj` is then a `Connection`.
        from_environment: whether FARPOINT_SERVER and the like count, which is for the outermost
            command: behind a command only what is typed there overrides.
    """

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in _OPTIONS}
        known = {name: value for name, value in given.items() if value is not None}
        context.obj = replace(context.obj or Connection(), **known)
        command(context, **values)

    first, *own = inspect.signature(command).parameters.values()
    own = [first.replace(name="context", annotation=typer.Context), *own]
    added = [_parameter(name, from_environment) for name in _OPTIONS]
    return with_parameters(run, [*own, *added])


def with_fields(
    command: Callable[..., None], fields: type, options: dict[str, Any]
) -> Callable[..., None]:
    """Turns the fields of a dataclass into the options of a command, which takes the dataclass."""

    @functools.wraps(command)
    def run(connection: Connection, **values: Any) -> None:
        command(connection, fields(**values))

    kinds = get_type_hints(fields)
    parameters = [inspect.Parameter("connection", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for field in dataclasses.fields(fields):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        option: Any = options[field.name]
        parameters.append(_keyword(field.name, default, _annotated(kinds[field.name], option)))
    return with_parameters(run, parameters)


def with_parameters(function: Any, parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """The function with another signature, which is how typer knows its options."""
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    adapted: Callable[..., None] = function
    return adapted


def _parameter(name: str, from_environment: bool) -> inspect.Parameter:
    kind, text = _OPTIONS[name]
    flag = "--" + name.replace("_", "-")
    variable = f"FARPOINT_{name.upper()}" if from_environment else None
    # A flag without its opposite: nothing turns TLS off again.
    option = typer.Option(flag, envvar=variable, help=text, show_default=False)
    return _keyword(name, None, _annotated(kind, option))


def _annotated(kind: Any, option: Any) -> Any:
    return Annotated[kind, option]


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
