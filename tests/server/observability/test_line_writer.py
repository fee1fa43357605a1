"""Log lines that nobody reads."""

import os

from farpoint_server.observability.line_writer import LineWriter


def test_lines_arrive_in_order():
    end, start = os.pipe()
    writer = LineWriter(start)
    assert writer.write("one")
    assert writer.write("zwölf")
    writer.close(5)
    assert os.read(end, 100).decode() == "one\nzwölf\n"


def test_a_reader_who_stops_reading_costs_lines_and_nothing_else():
    _, start = os.pipe()
    writer = LineWriter(start, capacity=10)
    written = [writer.write("x" * 100_000) for _ in range(50)]
    assert written.count(False) >= 38
    assert writer.take_dropped() == written.count(False)
    assert writer.take_dropped() == 0
    writer.close(0.01)


def test_a_reader_who_is_gone_is_no_error():
    end, start = os.pipe()
    os.close(end)
    writer = LineWriter(start)
    writer.write("nobody")
    writer.close(5)


def test_lines_that_come_while_others_are_gathered_are_written_too():
    end, start = os.pipe()
    writer = LineWriter(start)
    with os.fdopen(end) as lines:
        for text in ("first", "second", "third"):
            writer.write(text)
            assert lines.readline() == f"{text}\n"
    writer.close(5)


def test_a_line_may_be_made_when_it_is_written():
    end, start = os.pipe()
    writer = LineWriter(start)
    writer.write("one")
    writer.write(lambda: "two")
    writer.close(5)
    assert os.read(end, 100).decode() == "one\ntwo\n"
