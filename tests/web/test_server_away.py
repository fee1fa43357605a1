"""A server that ends and comes back, a server with tokens, and a cancelled call."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.clouds import DATA
from tests.support.servers.server_process import RunningServer
from tests.web.browser import Page

TOKEN = "4e6f7420612073656372657421204e6f"


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    running = RunningServer("--http-listen", "127.0.0.1:0")
    yield running
    running.stop()


def _http_address(server: RunningServer) -> str:
    return str(server.ready["http_address"])


def test_a_killed_server_is_noticed_and_its_successor_continues(
    browser: Page, own_server: RunningServer, scan: Path
) -> None:
    address = _http_address(own_server)
    browser.open_idle(address)
    browser.set_samples(500)
    own_server.signal(signal.SIGKILL)
    own_server.wait()
    browser.drop(scan)
    assert "does not answer" in browser.wait_for_message()
    assert browser.text("link") == "The server does not answer"
    # The cloud is shown, without a sample.
    browser.wait_for_pixels(lambda left, right: left > 10_000 > 100 * right)
    successor = RunningServer("--http-listen", address)
    try:
        browser.wait_for_sample(500)
        browser.wait_for_pixels(lambda _, right: right > 500)
        assert browser.message() == ""
        assert browser.script("return document.getElementById('link').dataset.state") == "online"
    finally:
        successor.stop()
        browser.complaints()  # of the requests without an answer


def test_a_token_is_asked_for_and_a_cloud_above_the_limit_is_one_sentence(
    browser: Page, scan: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"page sample {TOKEN}\n")
    tokens.chmod(0o600)
    limits = ("--tokens-file", str(tokens), "--max-request-points", "20000")
    server = RunningServer("--http-listen", "127.0.0.1:0", *limits)
    try:
        browser.open(_http_address(server))
        browser.wait_for("!document.getElementById('token-form').hidden")
        browser.element("token").send_keys(f"{TOKEN}\n")
        browser.wait_for("document.getElementById('link').dataset.state === 'online'")
        browser.drop(DATA / "milk.pcd")
        browser.set_samples(500)
        browser.drop(scan)
        assert browser.wait_for_message() == (
            "street_part.npy has 26,912 points; this server takes 20,000 in a call."
        )
    finally:
        server.stop()
        browser.complaints()  # of the call without a token


def test_a_cancelled_call_is_cancelled_on_the_server(
    page: Page, address: str, server: RunningServer, tmp_path: Path
) -> None:
    cancelled = "farpoint_refusals_total{reason=cancelled}"
    before = server.metrics().get(cancelled, 0)
    page.open_idle(address)
    large = tmp_path / "large.npy"
    np.save(large, np.random.default_rng(0).random((390_000, 3), np.float32))
    page.drop(large)
    server.wait_for_metric("farpoint_calls", lambda calls: calls > 0)
    page.script("document.getElementById('cancel').click()")
    server.wait_for_metric("farpoint_calls", lambda calls: calls == 0)
    assert server.metrics()[cancelled] == before + 1
    assert page.text("busy") == ""
    assert page.message() == ""
