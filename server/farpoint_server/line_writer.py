"""Writes lines to a file descriptor without ever making the caller wait."""

import contextlib
import os
import queue
import threading


class LineWriter:
    """A thread of its own, so that a reader who stops reading cannot stop the server.

    Args:
        descriptor: Where the lines go.
        capacity: Lines that may wait; more are dropped.
    """

    def __init__(self, descriptor: int, capacity: int = 10_000) -> None:
        self._descriptor = descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(capacity)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> bool:
        """Queues a line and returns True, or drops it if too many wait."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1
            return False
        return True

    def take_dropped(self) -> int:
        """Lines that were dropped since the last time this was asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def close(self, timeout_s: float) -> None:
        """Writes what still waits, for at most `timeout_s`."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            # A reader who is gone is no reason to fail.
            with contextlib.suppress(OSError):
                self._write(line.encode(errors="replace") + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]
