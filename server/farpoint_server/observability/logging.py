"""Structured logs: one JSON object or one readable line per event, all on standard error.

Standard output stays empty, so that it can be used by whoever starts the server in a pipe. A line
of ours (structlog) or of a library (logging) is queued as its fields; a thread of the log's own
makes text of it, many lines at a time under load.
"""

import contextlib
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


def configure(settings: Settings, descriptor: int | None = None, **fields: Any) -> None:
    """Sends our lines and those of libraries to standard error, as the settings say.

    Args:
        settings: The server's.
        descriptor: Where the lines go instead.
        fields: Of every line.
    """
    _everywhere.clear()
    _everywhere.update(fields)
    to = sys.stderr.fileno() if descriptor is None else descriptor
    handler = _Handler(LineWriter(to, _renderer(settings.log_format)))
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
    """Writes the lines that still wait; a reader who does not read is not waited for."""
    for handler in logging.getLogger().handlers:
        handler.close()


class LineWriter:
    """Writes lines to a file descriptor on a thread of its own, so that no caller ever waits.

    Args:
        descriptor: Where the lines go.
        render: Makes the text of a line of its fields, on that thread. Where it fails, the line
            says so.
        capacity: Lines that may wait; more are dropped.
    """

    def __init__(self, descriptor: int, render: Render, capacity: int = 10_000) -> None:
        self._descriptor = descriptor
        self._render = render
        self._capacity = capacity
        self._lines: deque[EventDict] = deque()
        self._dropped = 0
        self._counting = threading.Lock()
        self._has_lines = threading.Event()
        self._closing = threading.Event()
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
        """Lines that were dropped since the last time this was asked."""
        if not self._dropped:
            return 0
        with self._counting:
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
                data += self._text(self._lines.popleft()).encode(errors="replace") + b"\n"
            # A reader who is gone is no reason to fail.
            with contextlib.suppress(OSError):
                self._write(bytes(data))

    def _text(self, line: EventDict) -> str:
        failed = {
            "event": "log line not rendered",
            "level": "error",
            "timestamp": line.get("timestamp", 0.0),
        }
        try:
            return self._render(line)
        except Exception as error:  # of whatever a field's repr does
            return self._render(failed | {"error": type(error).__name__})

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


class _Handler(logging.Handler):
    """Hands lines to a LineWriter, and says when it had to drop some."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: EventDict = {"event": record.getMessage()}
        except Exception:  # of arguments that do not fit the message
            self.handleError(record)
            return
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        self.write(_fields_of(record.levelname.lower(), fields))

    def write(self, line: EventDict) -> None:
        """Queues a line, whose fields are not changed any more."""
        if self._writer.write(line) and (dropped := self._writer.take_dropped()):
            logging.getLogger(__name__).warning(
                "%d log lines dropped: their reader is too slow", dropped
            )

    def close(self) -> None:
        self._writer.close(CLOSE_TIMEOUT_S)
        super().close()


class _Lines:
    """What structlog hands its lines to: one method a level."""

    def __init__(self, write: Callable[[EventDict], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _complete(_: WrappedLogger, level: str, event: EventDict) -> ProcessorReturnValue:
    """The one processor of structlog: the arguments of a method of `_Lines`."""
    return (_fields_of(level, event),), {}


def _fields_of(level: str, event: EventDict) -> EventDict:
    """All that a line says: what the request at hand and the event say, level and time.

    A traceback becomes text at once, since errors that are dealt with lose theirs.
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
    to_json = structlog.processors.JSONRenderer()
    return lambda line: str(to_json(None, "", _with_iso_time(line)))


def _with_iso_time(line: EventDict) -> EventDict:
    moment = datetime.fromtimestamp(line["timestamp"], timezone.utc)
    return {**line, "timestamp": moment.isoformat().replace("+00:00", "Z")}
