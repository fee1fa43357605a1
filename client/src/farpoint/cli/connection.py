"""Server, TLS and token options, which may stand before the command or behind it."""

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer

from farpoint._channel import DEFAULT_TARGET, open_channel
from farpoint._client import Client
from farpoint._security import Security, Tls, read_security
from farpoint.errors import InvalidArgumentError

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
        return self.server or DEFAULT_TARGET

    def connect(self, timeout: float) -> Client:
        """A client of the server."""
        return Client(self.target, timeout=timeout, tls=self._tls(), token=self._token())

    def open_channel(self) -> grpc.Channel:
        """A channel to the server."""
        return open_channel(self.target, self.security())

    def security(self) -> Security:
        """What a channel to the server is opened with."""
        return read_security(self.target, self._tls(), self._token())

    def _tls(self) -> Tls | bool:
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
    """Adds the options to a command, and keeps what is given in the context.

    Args:
        command: takes a `typer.Context` first; `context.obj` is then a `Connection`.
        from_environment: whether FARPOINT_SERVER and the like count, which is for the outermost
            command to say: behind a command only what is typed there overrides.
    """

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in _OPTIONS}
        known = {name: value for name, value in given.items() if value is not None}
        context.obj = replace(context.obj or Connection(), **known)
        command(context, **values)

    added = [_parameter(name, from_environment) for name in _OPTIONS]
    first, *own = inspect.signature(command).parameters.values()
    own = [first.replace(name="context", annotation=typer.Context), *own]
    run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    return run


def _parameter(name: str, from_environment: bool) -> inspect.Parameter:
    kind, text = _OPTIONS[name]
    flag = "--" + name.replace("_", "-")
    variable = f"FARPOINT_{name.upper()}" if from_environment else None
    # A flag without its opposite: nobody turns TLS off again.
    option = typer.Option(flag, envvar=variable, help=text, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


assert list(_OPTIONS) == [field.name for field in fields(Connection)]
