"""Lines of served requests take a short way, and look as if they had not."""

import io
import json
import logging
import os

import pytest
import structlog

from farpoint_server import request_context as call
from farpoint_server.config.settings import Settings
from farpoint_server.observability import logging as logs

FIELDS = {"request_id": "an-id", "method": "Sample", "points": 5, "queue_ms": 0.25}
ENDED = {"event": "request", "status": "OK", "server_ms": 1.5}


@pytest.fixture
def lines(monkeypatch):
    """Configures the log, and reads what was written once it is closed."""
    end, start = os.pipe()
    stderr = io.TextIOWrapper(os.fdopen(start, "wb"))
    root = logging.getLogger()
    handlers, level = root.handlers, root.level

    def configure(**settings):
        monkeypatch.setattr("sys.stderr", stderr)
        logs.configure(Settings(**settings))

    def read():
        logs.close()
        stderr.close()
        with os.fdopen(end) as written:
            return written.read().splitlines()

    yield configure, read
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_the_line_of_a_served_request_is_what_structlog_would_write(lines, log_format):
    configure, read = lines
    configure(log_format=log_format)
    logs.writer_of_served()(FIELDS | ENDED)
    call.begin(lambda *_: None, **FIELDS)
    structlog.get_logger().info(**ENDED)
    short, usual = read()
    if log_format == "json":
        parsed = [json.loads(line) for line in (short, usual)]
        stamps = [line.pop("timestamp") for line in parsed]
        assert parsed == [FIELDS | ENDED | {"level": "info"}] * 2
        assert [stamp[10] + stamp[-1] for stamp in stamps] == ["TZ", "TZ"]
    else:
        assert sorted(short.split()[1:]) == sorted(usual.split()[1:])


async def test_at_a_higher_level_nothing_is_written(lines):
    configure, read = lines
    configure(log_format="json", log_level="warning")
    logs.writer_of_served()(FIELDS | ENDED)
    assert read() == []
