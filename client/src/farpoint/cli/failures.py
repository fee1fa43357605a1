"""Failures in one line of the command's own words, and their exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from farpoint.errors import (
    CloudFileError,
    FarpointError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
)

# Names of arguments in the library and on the server, and on the command line.
_WORDS = {
    'nonfinite="ignore"': "--nonfinite ignore",
    "nonfinite='ignore'": "--nonfinite ignore",
    "NONFINITE_POLICY_IGNORE": "--nonfinite ignore",
    "nonfinite_policy": "--nonfinite",
    "sample_counts": "-m",
    "covering_radius": "--radius",
    "start_indices": "--start",
    "voxel_grid.voxel_size": "--voxel-size",
    "FARPOINT_MAX_MESSAGE_BYTES": "the server's --max-message-bytes",
}


def explain(error: FarpointError) -> str:
    """The message in words of the command line."""
    message = str(error)
    for word, flag in _WORDS.items():
        message = message.replace(word, flag)
    return message


@contextmanager
def clean_failure() -> Iterator[None]:
    """Expected failures end in one line, a hint where there is one, and an exit code."""
    try:
        yield
    except FarpointError as error:
        typer.echo(f"farpoint: {explain(error)}", err=True)
        if hint := _hint(error):
            typer.echo(hint, err=True)
        wrong_input = isinstance(error, (InvalidArgumentError, CloudFileError))
        raise typer.Exit(2 if wrong_input else 1) from error


def _hint(error: FarpointError) -> str | None:
    if isinstance(error, UnavailableError) and error.message.startswith("no server answers"):
        return "--server names another."
    if isinstance(error, ResourceExhaustedError) and "message" in str(error):
        return "A server takes larger messages with --max-message-bytes."
    if isinstance(error, UnimplementedError):
        return (
            "Administration has a port of its own: start the server with --admin-listen HOST:PORT, "
            "and name that port with --server."
        )
    return None
