"""Writes lines to a file descriptor without ever making the caller wait."""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

# Waking a thread costs more than a line. So it is woken for the first one, writes it at once, and
# looks again after a while for those that gathered.
GATHER_S = 0.05
WRITE_BYTES = 1 << 16

Line: TypeAlias = str | Callable[[], str]
"""A line, or what makes it when it is written."""


class LineWriter:
    """A thread of its own, so that a reader who stops reading cannot stop the server.

    Args:
        descriptor: Where the lines go.
        capacity: Lines that may wait; more are dropped.
    """

    def __init__(self, descriptor: int, capacity: int = 10_000) -> None:
        self._descriptor = descriptor
        self._capacity = capacity
        self._lines: deque[Line] = deque()
        self._dropped = 0
        self._has_lines = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: Line) -> bool:
        """Queues a line and returns True, or drops it if too many wait."""
        if len(self._lines) >= self._capacity:
            self._dropped += 1
            return False
        self._lines.append(line)
        if not self._has_lines.is_set():
            self._has_lines.set()
        return True

    def take_dropped(self) -> int:
        """Lines that were dropped since the last time this was asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def close(self, timeout_s: float) -> None:
        """Writes what still waits, for at most `timeout_s`."""
        self._closing.set()
        self._has_lines.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._has_lines.wait()
            self._write_all()
            self._closing.wait(GATHER_S)
        self._write_all()

    def _write_all(self) -> None:
        # Cleared first: a line that comes after the last look sets it again.
        self._has_lines.clear()
        while self._lines:
            data = bytearray()
            while self._lines and len(data) < WRITE_BYTES:
                line = self._lines.popleft()
                text = line if isinstance(line, str) else line()
                data += text.encode(errors="replace") + b"\n"
            # A reader who is gone is no reason to fail.
            with contextlib.suppress(OSError):
                self._write(bytes(data))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]
