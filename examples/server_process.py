"""Context manager that runs farpoint-server as a subprocess on free loopback ports."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

START_S, STOP_S = 120, 45


class ServerError(Exception):
    """The server did not start or did not stop as it should."""


class Ready(NamedTuple):
    """Where a server answers: gRPC at `address`, and a browser finds the page at `page`."""

    address: str
    page: str | None


@contextmanager
def running_server(log: Path) -> Iterator[Ready]:
    """Starts a server, says where it is, and ends it by SIGTERM; what it logs goes to `log`.

    Raises:
        ServerError: it ended before it was ready, took too long, or ended with an error.
    """
    # Flags win over FARPOINT_* variables; the ready line must appear, and as JSON.
    flags = ["--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"]
    flags += ["--log-format=json", "--log-level=info"]
    with log.open("w") as stream:
        process = subprocess.Popen([sys.executable, "-m", "farpoint_server", *flags], stderr=stream)
    try:
        yield _wait_until_ready(process, log)
    finally:
        status = _stop(process)
    if status:
        raise ServerError(f"farpoint-server ended with status {status}; its log is {log}")


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> Ready:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        # Asked before the log is read, so that the last line of an ended server is not missed.
        status = process.poll()
        lines = log.read_text().splitlines()
        ready = next(filter(None, map(_read_ready, lines)), None)
        if ready:
            return ready
        if status is not None:
            last = lines[-1] if lines else "it logged nothing"
            raise ServerError(f"farpoint-server ended with status {status} at its start: {last}")
        time.sleep(0.05)
    raise ServerError(f"farpoint-server was not ready after {START_S} s; its log is {log}")


def _read_ready(line: str) -> Ready | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return Ready(entry["address"], entry["page"]) if entry.get("event") == "ready" else None


def _stop(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
