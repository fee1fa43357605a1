"""Log lines that nobody reads, and lines that cannot be rendered."""

import os
import threading

from farpoint_server.observability.logging import LineWriter


def text_of(line):
    return line["event"]


def render_number(line):
    return f"{line['event']} {line.get('n', 0):d}"


def test_lines_arrive_in_order():
    end, start = os.pipe()
    writer = LineWriter(start, text_of)
    assert writer.write({"event": "one"})
    assert writer.write({"event": "zwölf"})
    writer.close(5)
    assert os.read(end, 100).decode() == "one\nzwölf\n"


def test_a_reader_who_stops_reading_costs_lines_and_nothing_else():
    _, start = os.pipe()
    writer = LineWriter(start, text_of, capacity=10)
    written = [writer.write({"event": "x" * 100_000}) for _ in range(50)]
    assert written.count(False) >= 38
    assert writer.take_dropped() == written.count(False)
    assert writer.take_dropped() == 0
    writer.close(0.01)


def test_lines_that_many_threads_drop_at_once_are_all_counted():
    _, start = os.pipe()
    writer = LineWriter(start, text_of, capacity=0)
    counted = []

    def drop():
        for i in range(2000):
            assert not writer.write({"event": "dropped"})
            if i % 10 == 0:
                counted.append(writer.take_dropped())

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counted) + writer.take_dropped() == 8000
    writer.close(5)


def test_a_reader_who_is_gone_is_no_error():
    end, start = os.pipe()
    os.close(end)
    writer = LineWriter(start, text_of)
    writer.write({"event": "nobody"})
    writer.close(5)


def test_lines_that_come_while_others_are_gathered_are_written_too():
    end, start = os.pipe()
    writer = LineWriter(start, text_of)
    with os.fdopen(end) as lines:
        for text in ("first", "second", "third"):
            writer.write({"event": text})
            assert lines.readline() == f"{text}\n"
    writer.close(5)


def test_a_line_that_cannot_be_rendered_says_so_and_ends_no_other():
    end, start = os.pipe()
    writer = LineWriter(start, render_number)
    with os.fdopen(end) as lines:
        writer.write({"event": "good", "n": 1})
        assert lines.readline() == "good 1\n"
        writer.write({"event": "bad", "n": "a word"})
        writer.write({"event": "good", "n": 2})
        assert lines.readline() == "log line not rendered 0\n"
        assert lines.readline() == "good 2\n"
    writer.close(5)
