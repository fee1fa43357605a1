"""The command in this process, against the small server of the client's tests."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.command import Result, run_farpoint


@pytest.fixture
def farpoint() -> Callable[..., Result]:
    """Runs `farpoint`; `server` stands for FARPOINT_SERVER."""

    def run(*arguments: object, server: str | None = None) -> Result:
        return run_farpoint(*arguments, env={"FARPOINT_SERVER": server})

    return run


@pytest.fixture
def sample(server: Any) -> Callable[..., Result]:
    """Runs `farpoint sample` against the test server."""

    def run(*arguments: object, **options: Any) -> Result:
        return run_farpoint("sample", "-j", 1, *arguments, "--server", server.target, **options)

    return run
