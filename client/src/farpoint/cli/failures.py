"""What went wrong, in one line of the command's own words, and the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from farpoint.errors import (
    CloudFileError,
    FarpointError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)

# What the library and the server call an argument, and what it is called on the command line.
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
START_HINT = (
    "Nothing answers at {target}. To start a server: `make serve` in a checkout, or "
    "`docker run -p 127.0.0.1:50051:50051 farpoint-server:cpu`; --server names another."
)


def explain(error: FarpointError) -> str:
    """The message in words of the command line."""
    said = str(error)
    for word, flag in _WORDS.items():
        said = said.replace(word, flag)
    return said


@contextmanager
def clean_failure(target: str | None = None) -> Iterator[None]:
    """Expected failures end in one line and an exit code; where nobody listens, in a hint too."""
    try:
        yield
    except FarpointError as error:
        typer.echo(f"farpoint: {explain(error)}", err=True)
        if _nobody_listens(error) and target is not None:
            typer.echo(START_HINT.format(target=target), err=True)
        if isinstance(error, ResourceExhaustedError) and "message" in str(error):
            typer.echo("A server takes larger messages with --max-message-bytes.", err=True)
        wrong_input = isinstance(error, (InvalidArgumentError, CloudFileError))
        raise typer.Exit(2 if wrong_input else 1) from error


def _nobody_listens(error: FarpointError) -> bool:
    """Rather than somebody who wants TLS, or other certificates."""
    return isinstance(error, UnavailableError) and "handshake" not in str(error).lower()
