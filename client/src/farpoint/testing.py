"""Runs a farpoint-server in another process, for tests and examples.

    with farpoint.testing.serve() as server, farpoint.Client(server.address) as client:
        sample = client.sample(points, 1024)

It needs the distribution `farpoint-server` in the same environment.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from farpoint.errors import FarpointError, UnavailableError

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 45.0
PROGRAM = (sys.executable, "-m", "farpoint_server")


def serve(*flags: str, start_timeout: float = START_TIMEOUT_S) -> "LocalServer":
    """Starts a server with default settings on a free loopback port.

    Args:
        flags: Flags of `farpoint-server`, such as "--encoder=default".
        start_timeout: Seconds within which the server must be ready.

    Raises:
        UnavailableError: The server ended before it was ready, or was not ready in time.
    """
    return LocalServer(PROGRAM, *flags, start_timeout=start_timeout)


class LocalServer:
    """A running server; as a context manager it drains and stops at the exit.

    Attributes:
        address: Address of gRPC, for `farpoint.Client`.
        page: URL of the page; None without `--http-listen`.
        process: The `subprocess.Popen`.
        log: Lines of the server's log as dicts, appended as they arrive.
    """

    def __init__(
        self, program: Sequence[str], *flags: str, start_timeout: float = START_TIMEOUT_S
    ) -> None:
        command = [*program, "--listen=127.0.0.1:0", *flags]
        command += ["--log-format=json", "--log-level=info"]
        self.log: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self.process = self._start(command)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            ready = self.wait_for(lambda line: line["event"] == "ready", start_timeout)
        except UnavailableError:
            self.process.kill()
            self.wait()
            raise
        self.address: str = ready["address"]
        self.page: str | None = ready.get("page")

    def __enter__(self) -> "LocalServer":
        return self

    def __exit__(self, *_: object) -> None:
        if status := self.stop():
            raise FarpointError(f"farpoint-server ended with status {status}")

    def wait_for(
        self, wanted: Callable[[dict[str, Any]], bool], timeout: float = START_TIMEOUT_S
    ) -> dict[str, Any]:
        """Waits for the first line of the log for which `wanted` is true.

        Raises:
            UnavailableError: The server ended, or the time passed, without such a line.
        """
        end, seen = time.monotonic() + timeout, 0
        with self._changed:
            while True:
                for line in self.log[seen:]:
                    if wanted(line):
                        return line
                seen = len(self.log)
                if self._has_ended or not self._changed.wait(end - time.monotonic()):
                    break
        last = self.log[-1]["event"] if self.log else "it logged nothing"
        how = "ended" if self._has_ended else f"did not get there in {timeout:g} s"
        raise UnavailableError(f"farpoint-server {how}: {last}")

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status, 0 after a clean drain."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout: float = STOP_TIMEOUT_S) -> int:
        """Waits for the end of the server, which it kills after the timeout; its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._reader.join(timeout)

    def _start(self, command: list[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for text in lines:
                with self._changed:
                    self.log.append(_parsed(text))
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


def _parsed(text: str) -> dict[str, Any]:
    """A line of the log; text that is not JSON, such as a traceback, becomes the event."""
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    return line if isinstance(line, dict) and "event" in line else {"event": text.strip()}
