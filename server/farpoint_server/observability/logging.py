"""Structured logs: one JSON object or one readable line per event, all on standard error.

A line of ours (structlog) or of a library (logging) is queued as its fields; a thread of the log's
own renders it, many lines at a time under load.
"""

import contextlib
import fcntl
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeAlias

import structlog
from structlog.typing import EventDict, ProcessorReturnValue, WrappedLogger

from farpoint_server import request_context
from farpoint_server.config.settings import Settings

CLOSE_TIMEOUT_S = 1.0
# Waking a thread costs more than a line. So it is woken for the first one, writes it at once, and
# looks again after a while for those that gathered.
GATHER_S = 0.05
WRITE_BYTES = 1 << 16

# Of every line of this process.
_everywhere: EventDict = {}
Render: TypeAlias = Callable[[EventDict], str]


def configure(settings: Settings, **fields: Any) -> None:
    """Sends our lines and those of libraries to standard error.

    Args:
        settings: With format and level.
        fields: Of every line.
    """
    _everywhere.clear()
    _everywhere.update(fields)
    handler = _Handler(LineWriter(sys.stderr.fileno(), _renderer(settings.log_format)))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    # Not through logging, whose records cost more than all the rest of a line.
    structlog.configure(
        processors=[_complete],
        logger_factory=lambda *_: _Lines(handler.write),
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=True,
    )


def close() -> None:
    """Writes waiting lines without blocking on a reader that does not read."""
    for handler in logging.getLogger().handlers:
        handler.close()


class LineWriter:
    """Renders and writes lines on its own thread, so that callers never wait.

    Args:
        descriptor: Of the file to write to.
        render: Makes text of the fields of a line.
        capacity: Lines that may wait; more are dropped.
    """

    def __init__(self, descriptor: int, render: Render, capacity: int = 10_000) -> None:
        self._descriptor, self._render, self._capacity = descriptor, render, capacity
        self._lines: deque[EventDict] = deque()
        self._dropped, self._counting = 0, threading.Lock()
        self._has_lines, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: EventDict) -> bool:
        """Queues a line and returns True, or drops it if too many wait; from any thread."""
        if len(self._lines) >= self._capacity:
            with self._counting:
                self._dropped += 1
            return False
        self._lines.append(line)
        if not self._has_lines.is_set():
            self._has_lines.set()
        return True

    def take_dropped(self) -> int:
        """Number of lines dropped since the last call."""
        if not self._dropped:
            return 0
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def close(self, timeout_s: float) -> None:
        """Writes waiting lines for at most `timeout_s`."""
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
                data += self._text(self._lines.popleft()).encode(errors="replace") + b"\n"
            # Processes of one server share a pipe, which mixes writes of more than 4 KiB.
            with contextlib.suppress(OSError):  # a file system may have no locks
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):  # the reader has gone
                while data:
                    del data[: os.write(self._descriptor, data)]
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _text(self, line: EventDict) -> str:
        try:
            return self._render(line)
        except Exception as error:  # of a field's repr
            failed = {"event": "log line not rendered", "error": type(error).__name__}
            return self._render({**failed, "level": "error", "timestamp": line["timestamp"]})


class _Handler(logging.Handler):
    """Passes lines to a LineWriter and logs how many it dropped."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
        except Exception:  # of arguments that do not fit the message
            event = str(record.msg)
        fields: EventDict = {"event": event}
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        self.write(_fields_of(record.levelname.lower(), fields))

    def write(self, line: EventDict) -> None:
        """Queues a line, whose fields must not change afterwards."""
        if self._writer.write(line) and (dropped := self._writer.take_dropped()):
            logging.getLogger(__name__).warning(
                "%d log lines dropped: their reader is too slow", dropped
            )

    def close(self) -> None:
        self._writer.close(CLOSE_TIMEOUT_S)
        super().close()


class _Lines:
    """The logger below structlog: one method a level."""

    def __init__(self, write: Callable[[EventDict], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _complete(_: WrappedLogger, level: str, event: EventDict) -> ProcessorReturnValue:
    """The only processor of structlog: the arguments of a method of `_Lines`."""
    return (_fields_of(level, event),), {}


def _fields_of(level: str, event: EventDict) -> EventDict:
    """Fields of the current request and of the event, level and time.

    A traceback becomes text at once, since handled errors lose theirs.
    """
    request = request_context.variable.get()
    known = {} if request is None else request.fields
    fields = {**known, **event, **_everywhere, "level": level, "timestamp": time.time()}
    if "exc_info" in fields:
        fields = dict(structlog.processors.format_exc_info(None, level, fields))
    return fields


def _renderer(log_format: str) -> Render:
    terminal = sys.stderr.isatty()
    if log_format == "console" or (log_format == "auto" and terminal):
        # Not rich's traceback: it shows local variables, and those may be a caller's data.
        plain = structlog.dev.plain_traceback
        console = structlog.dev.ConsoleRenderer(colors=terminal, exception_formatter=plain)
        return lambda line: console(None, "", _with_iso_time(line))
    to_json = json.JSONEncoder(default=repr).encode
    return lambda line: to_json(_with_iso_time(line))


def _with_iso_time(line: EventDict) -> EventDict:
    moment = datetime.fromtimestamp(line["timestamp"], timezone.utc)
    return {**line, "timestamp": moment.isoformat().replace("+00:00", "Z")}
