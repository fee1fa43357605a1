"""One log of several processes: whole lines, from pipes to standard error."""

import contextlib
import os
import selectors
import threading

READ_BYTES = 1 << 16
# A line that is longer is cut.
MAX_LINE = 1 << 20


class LogMerger:
    """Copies lines as they are, on a thread.

    A pipe takes 4 KiB at once from one writer and mixes what is longer with that of others, so
    each process has a pipe of its own. Where the output is not read, the pipes fill up, and each
    process drops lines and counts them, as one alone would.

    Args:
        descriptor: Where the lines go.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="log merger", daemon=True)
        self._thread.start()

    def open(self) -> int:
        """A descriptor to write lines to; close it, and have the process that writes close it."""
        read, write = os.pipe()
        self._selector.register(read, selectors.EVENT_READ, bytearray())
        os.write(self._wake, b"+")
        return write

    def close(self, timeout_s: float) -> None:
        """Copies what is still to come until every writer has closed, for so long at most."""
        self._closing = True
        os.write(self._wake, b"-")
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while len(self._selector.get_map()) > 1 or not self._closing:
            for key, _ in self._selector.select():
                if key.fd == self._wake_read:
                    os.read(key.fd, READ_BYTES)
                else:
                    self._copy(key.fd, key.data)

    def _copy(self, pipe: int, rest: bytearray) -> None:
        data = os.read(pipe, READ_BYTES)
        rest += data
        if not data:
            # The process died in the middle of a line.
            self._write(rest + b"\n" if rest else b"")
            self._selector.unregister(pipe)
            os.close(pipe)
            return
        end = rest.rfind(b"\n") + 1 or (len(rest) if len(rest) > MAX_LINE else 0)
        self._write(rest[:end])
        del rest[:end]

    def _write(self, data: bytes | bytearray) -> None:
        # A reader who is gone is no reason to fail.
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
