"""One log of several processes: whole lines, from pipes to standard error."""

import contextlib
import os
import threading
import time

# Bytes; a longer line is cut.
MAX_LINE = 1 << 20


class LogMerger:
    """Copies lines as they are, on a thread for each pipe.

    Writes of more than 4 KiB to one pipe mix with those of others, so each process has a pipe.
    If the output is not read, the pipes fill up, and each process drops and counts lines.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._copying: list[threading.Thread] = []

    def open(self) -> int:
        """A descriptor for log lines; the caller and the writing process must both close it."""
        read, write = os.pipe()
        thread = threading.Thread(target=self._copy, args=(read,), daemon=True)
        thread.start()
        self._copying = [*filter(threading.Thread.is_alive, self._copying), thread]
        return write

    def close(self, timeout_s: float) -> None:
        """Copies the remaining lines until every writer has closed, for at most `timeout_s`."""
        end = time.monotonic() + timeout_s
        for thread in self._copying:
            thread.join(max(0.0, end - time.monotonic()))

    def _copy(self, pipe: int) -> None:
        with open(pipe, "rb") as lines:
            while line := lines.readline(MAX_LINE):
                # A line without an end is cut, or its process died.
                data = line if line.endswith(b"\n") else line + b"\n"
                # OSError: the reader is gone.
                with self._lock, contextlib.suppress(OSError):
                    while data:
                        data = data[os.write(self._descriptor, data) :]
