"""Log lines, the context of a request that they show, and the log of any library."""

import asyncio
import io
import json
import logging
import os
import subprocess
import sys

import pytest
import structlog

from farpoint_server import request_context
from farpoint_server.config.settings import Settings
from farpoint_server.errors import clear_tracebacks
from farpoint_server.observability.logging import LineWriter, close
from farpoint_server.observability.logging import configure as configure_logging
from farpoint_server.transport.grpc.interceptor import begin

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
        configure_logging(Settings(**settings))

    def read():
        close()
        stderr.close()
        with os.fdopen(end) as written:
            return written.read().splitlines()

    yield configure, read
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


async def test_a_line_has_what_the_event_and_the_request_at_hand_say(lines):
    configure, read = lines
    configure(log_format="json")
    begin(lambda *_: None, "unix:", **FIELDS)
    structlog.get_logger().info(**ENDED)
    structlog.get_logger().warning("late", points=6)
    served, late = (json.loads(line) for line in read())
    stamps = [line.pop("timestamp") for line in (served, late)]
    assert served == FIELDS | ENDED | {"level": "info"}
    assert late == FIELDS | {"event": "late", "points": 6, "level": "warning"}
    assert [stamp[10] + stamp[-1] for stamp in stamps] == ["TZ", "TZ"]


def test_the_console_shows_the_same_in_one_line(lines):
    configure, read = lines
    configure(log_format="console")
    structlog.get_logger().info(**FIELDS, **ENDED)
    (line,) = read()
    assert {"points=5", "method=Sample", "server_ms=1.5"} <= set(line.split())
    assert "[info" in line


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_is_there_though_the_error_has_lost_its_own_by_then(lines, log_format):
    configure, read = lines
    configure(log_format=log_format)
    try:
        raise KeyError("the cause")
    except KeyError as error:
        structlog.get_logger().error("request", exc_info=error)
        clear_tracebacks(error)
    text = "\n".join(read())
    assert "KeyError: 'the cause'" in text
    assert "test_logging.py" in text


def test_lines_of_libraries_are_logged(lines):
    configure, read = lines
    configure(log_format="auto")
    logging.getLogger("a.library").warning("%d things", 3)
    logging.getLogger("a.library").info("unheard of", exc_info=KeyError("why"))
    first, second = (json.loads(line) for line in read())
    assert (first["event"], first["level"]) == ("3 things", "warning")
    assert "KeyError: 'why'" in second["exception"]


def test_a_line_that_cannot_be_shown_costs_no_other(lines):
    class Unshowable:
        def __repr__(self):
            raise ValueError("no text")

    configure, read = lines
    configure(log_format="json")
    logging.getLogger("library").warning("%d", "no number")
    structlog.get_logger().info("first", field=Unshowable())
    structlog.get_logger().info("second")
    library, first, second = (json.loads(line) for line in read())
    assert library["event"] == "%d"
    assert (first["event"], first["error"]) == ("log line not rendered", "ValueError")
    assert second["event"] == "second"


def test_how_many_lines_were_dropped_is_logged_with_the_next_one(lines, monkeypatch):
    dropped = [3]
    monkeypatch.setattr(LineWriter, "take_dropped", lambda _: dropped.pop() if dropped else 0)
    configure, read = lines
    configure(log_format="json")
    structlog.get_logger().info(**ENDED)
    events = [json.loads(line)["event"] for line in read()]
    assert sorted(events) == ["3 log lines dropped: their reader is too slow", "request"]


def test_at_a_higher_level_nothing_is_written(lines):
    configure, read = lines
    configure(log_format="json", log_level="warning")
    structlog.get_logger().info(**ENDED)
    assert read() == []


def text_of(line):
    return line["event"]


def test_a_reader_who_stops_reading_costs_lines_and_nothing_else():
    _, start = os.pipe()
    writer = LineWriter(start, text_of, capacity=10)
    written = [writer.write({"event": "x" * 100_000}) for _ in range(50)]
    assert written.count(False) >= 38
    assert writer.take_dropped() == written.count(False)
    assert writer.take_dropped() == 0
    writer.close(0.01)
    assert not LineWriter(start, text_of, capacity=0).write({"event": "one too many"})


def test_a_reader_who_is_gone_is_no_error():
    end, start = os.pipe()
    os.close(end)
    writer = LineWriter(start, text_of)
    writer.write({"event": "unread"})
    writer.close(5)


def test_lines_that_come_while_others_are_gathered_are_written_too():
    end, start = os.pipe()
    writer = LineWriter(start, text_of)
    with os.fdopen(end, encoding="utf-8") as lines:
        for text in ("first", "zwölf", "third"):
            assert writer.write({"event": text})
            assert lines.readline() == f"{text}\n"
    writer.close(5)


WRITER = """
import sys
from farpoint_server.observability.logging import LineWriter
writer = LineWriter(2, str)
print(flush=True)
sys.stdin.read()
for length in (1, 5000, 70_000) * 20:
    writer.write(sys.argv[1] * length)
writer.close(60)
"""


def test_lines_of_processes_that_share_an_output_stay_whole():
    end, start = os.pipe()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": start}
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, letter], **pipes) for letter in "ab"]
    os.close(start)
    for writer in writers:
        assert writer.stdout.read(1)
    for writer in writers:
        writer.stdin.close()
    written = b"".join(iter(lambda: os.read(end, 4096), b"")).splitlines()
    os.close(end)
    for writer in writers:
        with writer:
            assert writer.wait() == 0
    assert sorted(map(len, written)) == sorted([1, 5000, 70_000] * 40)
    assert all(len(set(line)) == 1 for line in written)


async def test_fields_of_interceptors_belong_to_the_call():
    request_context.bind(caller="someone")
    begin(lambda *_: None, "unix:", method="Sample")
    request_context.bind(points=5)
    assert request_context.current().fields == {
        "caller": "someone",
        "method": "Sample",
        "points": 5,
    }


async def test_requests_of_a_stream_have_fields_of_their_own():
    ended = []
    begin(lambda *fields: ended.append(fields), "unix:", method="SampleStream")

    async def request(index):
        request_context.fork(request_index=index)
        await asyncio.sleep(0)
        request_context.bind(points=index)
        request_context.current().on_end(0.5, None, {})
        return request_context.current().fields

    first, second = await asyncio.gather(request(1), request(2))
    assert (first["request_index"], first["points"]) == (1, 1)
    assert (second["request_index"], second["points"]) == (2, 2)
    assert request_context.current().fields == {"method": "SampleStream"}
    assert len(ended) == 2


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.1.2.3:5000", "ipv4:10.1.2.3"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:5000", "ipv6:2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", "ipv6:fe80::/64"),
        ("ipv4:127.0.0.1:5000", "ipv4:127.0.0.1:5000"),
        ("ipv6:%5B::1%5D:5000", "ipv6:%5B::1%5D:5000"),
        ("unix:", "unix:"),
        ("what gRPC may name one day", "what gRPC may name one day"),
    ],
)
async def test_a_network_address_is_one_caller_and_a_local_connection_another(peer, address):
    begin(lambda *_: None, peer, method="Sample")
    assert request_context.caller.get() == address


async def test_a_token_is_one_caller_from_wherever_and_in_each_request_of_a_stream():
    request_context.bind(caller="robot")
    begin(lambda *_: None, "ipv4:10.1.2.3:5000", method="SampleStream")
    request_context.fork(request_index=0)
    assert request_context.caller.get() == "token:robot"
