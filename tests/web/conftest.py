"""A server with its page and a browser on it; skipped by name where there is no browser."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.clouds import DATA
from tests.support.servers.server_process import RunningServer
from tests.web.browser import Page

import farpoint

NEEDED = "REQUIRE_TEST_TOOLS"
COLUMNS = ("x", "y", "z", "intensity")


def _missing() -> str | None:
    if not importlib.util.find_spec("selenium"):
        return "selenium is not installed"
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"{' and '.join(absent)} not found" if absent else None


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One window for all tests; REQUIRE_TEST_TOOLS=1 makes a missing browser a failure."""
    if missing := _missing():
        assert not os.environ.get(NEEDED), missing
        pytest.skip(f"tests of the page: {missing}")
    page = Page(tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The window, whose console must stay empty."""
    browser.complaints()
    yield browser
    assert browser.complaints() == []


@pytest.fixture(scope="session")
def server(browser: Page) -> Iterator[RunningServer]:
    """A server with a page, for a browser that is there."""
    del browser
    with RunningServer("--http-listen", "127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="session")
def address(server: RunningServer) -> str:
    """The address of the page."""
    return str(server.ready["http_address"])


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.address) as connected:
        yield connected


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A street of 26,912 points, with an intensity."""
    rows = np.fromfile(DATA / "street_kitti_part.bin", np.dtype([(n, "<f4") for n in COLUMNS]))
    path = tmp_path / "street_part.npy"
    np.save(path, rows)
    return path
