"""The command `farpoint`; importing this loads typer and rich, importing `farpoint` does not."""

from farpoint.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the command."""
    app(prog_name="farpoint")
