"""The log of several processes: whole lines, and the last one of a process that died."""

import os
import threading

import pytest

from farpoint_server.processes.log import LogMerger


@pytest.fixture
def output():
    read, write = os.pipe()
    chunks: list[bytes] = []

    def drain() -> None:
        while data := os.read(read, 1 << 16):
            chunks.append(data)

    reader = threading.Thread(target=drain)
    reader.start()
    yield write, lambda: (os.close(write), reader.join(60), b"".join(chunks).splitlines())[2]
    os.close(read)


def test_lines_of_any_length_stay_whole_while_others_write(output):
    descriptor, lines = output
    merger = LogMerger(descriptor)

    def write(pipe: int, letter: bytes) -> None:
        for length in (1, 5000, 70_000) * 5:
            data = letter * length + b"\n"
            while data:
                data = data[os.write(pipe, data[:3000]) :]
        os.close(pipe)

    writers = [
        threading.Thread(target=write, args=(merger.open(), letter)) for letter in (b"a", b"b")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    merger.close(60)
    written = lines()
    assert sorted(map(len, written)) == sorted([1, 5000, 70_000] * 10)
    assert all(len(set(line)) == 1 for line in written)


def test_an_unfinished_line_of_a_process_that_ends_is_a_line_of_its_own(output):
    descriptor, lines = output
    merger = LogMerger(descriptor)
    dying, other = merger.open(), merger.open()
    os.write(dying, b"whole\nSegmentation")
    os.close(dying)
    os.write(other, b"other\n")
    os.close(other)
    merger.close(60)
    assert sorted(lines()) == [b"Segmentation", b"other", b"whole"]


def test_the_end_does_not_wait_for_a_process_that_stays(output):
    descriptor, lines = output
    merger = LogMerger(descriptor)
    staying = merger.open()
    merger.close(0.05)
    os.close(staying)
    merger.close(60)
    assert lines() == []


def test_a_line_without_an_end_is_cut(output, monkeypatch):
    monkeypatch.setattr("farpoint_server.processes.log.MAX_LINE", 8)
    descriptor, lines = output
    merger = LogMerger(descriptor)
    endless = merger.open()
    os.write(endless, b"a" * 9)
    os.close(endless)
    merger.close(60)
    assert lines() == [b"a" * 8, b"a"]


def test_a_log_whose_reader_is_gone_ends_nothing():
    read, write = os.pipe()
    os.close(read)
    merger = LogMerger(write)
    for _ in range(2):
        pipe = merger.open()
        os.write(pipe, b"line\n")
        os.close(pipe)
    merger.close(60)
    os.close(write)
