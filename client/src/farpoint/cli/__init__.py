"""The command `farpoint`; importing this loads typer and rich, importing `farpoint` does not."""

import os
import sys

from farpoint.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the command."""
    try:
        app(prog_name="farpoint")
    except BrokenPipeError:
        # The reader of a pipe has seen enough; Python would complain again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
