"""The command in this process, against the small server of the client's tests."""

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from farpoint.cli.app import app


def run_farpoint(*arguments: object, server: str | None = None, **options: Any) -> Result:
    """Runs `farpoint`; `server` stands for FARPOINT_SERVER."""
    words = [str(argument) for argument in arguments]
    return CliRunner(env={"FARPOINT_SERVER": server}).invoke(app, words, **options)


@pytest.fixture
def farpoint() -> Callable[..., Result]:
    """Runs `farpoint`."""
    return run_farpoint


@pytest.fixture
def sample(server: Any) -> Callable[..., Result]:
    """Runs `farpoint sample` against the test server, which takes a million points."""
    server.request_points = 1_000_000

    def run(*arguments: object, **options: Any) -> Result:
        return run_farpoint("sample", *arguments, "--server", server.target, **options)

    return run
