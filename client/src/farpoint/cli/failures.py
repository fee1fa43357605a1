"""Failures as one line in terms of the command line, or one JSON object, with exit codes."""

import json
import sys

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
    "voxel_size must": "--voxel-size must",
    "radius must": "--radius must",
    "seed must": "--seed must",
    "FARPOINT_MAX_MESSAGE_BYTES": "the server's --max-message-bytes",
}


def explain(error: FarpointError) -> str:
    """The message in terms of the command line."""
    message = str(error)
    for word, flag in _WORDS.items():
        message = message.replace(word, flag)
    return message


def as_json(error: Exception, message: str, **where: str) -> str:
    """One object on one line."""
    return json.dumps({**where, "error": message, "kind": type(error).__name__})


def report(error: FarpointError, *, in_json: bool, is_admin: bool) -> int:
    """Prints a failure with a hint, if there is one; returns the exit code.

    Args:
        error: the failure.
        in_json: whether to print an object on standard output.
        is_admin: whether the command calls the AdminService.
    """
    if in_json:
        print(as_json(error, explain(error)))
    else:
        print(f"farpoint: {explain(error)}", file=sys.stderr)
        if hint := _hint(error, is_admin):
            print(hint, file=sys.stderr)
    return 2 if isinstance(error, (InvalidArgumentError, CloudFileError)) else 1


def _hint(error: FarpointError, is_admin: bool) -> str | None:
    if isinstance(error, UnavailableError) and error.message.startswith("no server answers"):
        return "--server names another."
    if isinstance(error, ResourceExhaustedError) and "larger than max" in error.message:
        return "A server takes larger messages with --max-message-bytes."
    if isinstance(error, UnimplementedError) and is_admin:
        return (
            "Administration has a port of its own: start the server with --admin-listen HOST:PORT, "
            "and name that port with --server."
        )
    return None
