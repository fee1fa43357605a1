"""TLS and bearer token options of `farpoint`, given before the subcommand, and the client."""

import os
from pathlib import Path
from typing import Annotated

import grpc
import typer

from farpoint._channel import open_channel
from farpoint._client import Client
from farpoint._security import Tls, read_security
from farpoint.errors import InvalidArgumentError

# Never a flag: others on the machine could read it from the list of processes.
TOKEN_VARIABLE = "FARPOINT_TOKEN"


def options(
    context: typer.Context,
    tls: Annotated[bool, typer.Option("--tls", envvar="FARPOINT_TLS", help="Use TLS.")] = False,
    ca: Annotated[
        Path | None,
        typer.Option(envvar="FARPOINT_CA", help="PEM file of trusted authorities; implies --tls."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(envvar="FARPOINT_CERTIFICATE", help="PEM file of the client's certificate."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(envvar="FARPOINT_KEY", help="PEM file of its key.")
    ] = None,
    server_name: Annotated[
        str | None,
        typer.Option(
            envvar="FARPOINT_SERVER_NAME", help="Name in the server's certificate, if another."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="FARPOINT_TOKEN_FILE",
            help=f"File with a bearer token. The variable {TOKEN_VARIABLE} holds the token itself.",
        ),
    ] = None,
) -> None:
    """Keeps the options for `connect`."""
    wanted = tls or any((ca, certificate, key, server_name))
    context.obj = (Tls(ca, certificate, key, server_name) if wanted else False, token_file)


def connect(context: typer.Context, server: str, timeout: float) -> Client:
    """A client with the options of the command line."""
    tls, token_file = context.obj
    return Client(server, timeout=timeout, tls=tls, token=_token(token_file))


def connect_channel(context: typer.Context, server: str) -> grpc.Channel:
    """A channel alike."""
    tls, token_file = context.obj
    return open_channel(server, read_security(server, tls, _token(token_file)))


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return path.read_text().strip()
    except OSError as error:
        raise InvalidArgumentError(f"token file {path}: {error.strerror}", field="token") from error
