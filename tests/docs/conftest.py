"""One server for the pages."""

from collections.abc import Iterator

import pytest
from tests.support.servers.server_process import RunningServer


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with RunningServer("--http-listen", "127.0.0.1:0") as server:
        yield server
