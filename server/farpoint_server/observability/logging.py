"""Log lines: one JSON object or one readable line each, all on standard error.

Standard output stays empty, so that it can be used by whoever starts the server in a pipe.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial

import structlog
from structlog.typing import EventDict, Processor

from farpoint_server import request_context as call
from farpoint_server.config.settings import Settings
from farpoint_server.observability.line_writer import Line, LineWriter

CLOSE_TIMEOUT_S = 1.0


class _Handler(logging.Handler):
    """Hands formatted lines to a LineWriter, and says when it had to drop some."""

    def __init__(self, writer: LineWriter, renderers: Sequence[Processor]) -> None:
        super().__init__()
        self._writer = writer
        self._renderers = renderers

    def emit(self, record: logging.LogRecord) -> None:
        self.write(self.format(record))

    def write_served(self, fields: call.Fields) -> None:
        """Queues the line of a request that was served; `fields` are not changed any more."""
        self.write(partial(_render, self._renderers, time.time(), fields))

    def write(self, line: Line) -> None:
        """Queues a line that is formatted already, or formats itself on the writer's thread."""
        if self._writer.write(line):
            dropped = self._writer.take_dropped()
            if dropped:
                logging.getLogger(__name__).warning("%d lines dropped: nobody read them", dropped)

    def close(self) -> None:
        self._writer.close(CLOSE_TIMEOUT_S)
        super().close()


class _Lines:
    """What structlog hands its lines to: one method a level."""

    def __init__(self, handler: _Handler) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = handler.write


def configure(settings: Settings) -> None:
    """Sends our lines and those of libraries through the same formatter."""
    shared: list[Processor] = [
        call.merge,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = _Handler(LineWriter(sys.stderr.fileno()), _renderers(settings.log_format))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(settings.log_format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    # Not through logging, whose records cost more than all the rest of a line.
    structlog.configure(
        processors=[*shared, *_renderers(settings.log_format)],
        logger_factory=lambda *_: _Lines(handler),
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=True,
    )


def writer_of_served() -> Callable[[call.Fields], None]:
    """What writes the line of a request that was served, as `configure` has it.

    There is one such line for each request. Walking through structlog costs it as much as the rest
    of the call's boundary, so its fields alone are queued, and the log's thread makes a line of
    them, many at a time under load.
    """
    root = logging.getLogger()
    if root.isEnabledFor(logging.INFO):
        for handler in root.handlers:
            if isinstance(handler, _Handler):
                return handler.write_served
    return lambda _: None


def _render(renderers: Sequence[Processor], moment: float, fields: call.Fields) -> str:
    """What structlog would make of such a line at level info."""
    stamp = datetime.fromtimestamp(moment, timezone.utc).isoformat().replace("+00:00", "Z")
    line: EventDict = {**fields, "level": "info", "timestamp": stamp}
    for render in renderers:
        line = render(None, "info", line)  # type: ignore[assignment]
    return str(line)


def close() -> None:
    """Writes the lines that still wait; a reader who does not read is not waited for."""
    for handler in logging.getLogger().handlers:
        handler.close()


def _renderers(log_format: str) -> list[Processor]:
    terminal = sys.stderr.isatty()
    if log_format == "console" or (log_format == "auto" and terminal):
        # Not rich's traceback: it shows local variables, and those may be a caller's data.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=terminal, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
