"""Progress of long work: bars on a terminal's standard error, and nothing elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.client.conftest import NumpyServer

import farpoint
from farpoint._rpcs import stream

Command = Callable[..., tuple[str, str, str]]


@pytest.fixture
def command(server: NumpyServer) -> Command:
    """Runs `farpoint sample`: standard output, standard error, and what a terminal was sent."""

    def run(*words: object, terminal: tuple[str, ...]) -> tuple[str, str, str]:
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        line = [sys.executable, "-m", "farpoint", "sample", *map(str, words)]
        streams = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        streams |= dict.fromkeys(terminal, secondary)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [*line, "--server", server.target], env=environment, text=True, **streams
        )
        os.close(secondary)
        shown: list[bytes] = []
        reader = threading.Thread(target=read_to_end, args=(primary, shown))
        reader.start()
        out, errors = process.communicate(timeout=60)
        reader.join()
        os.close(primary)
        assert process.returncode == 0, errors
        return out or "", errors or "", b"".join(shown).decode()

    return run


def read_to_end(descriptor: int, into: list[bytes]) -> None:
    while True:
        try:
            data = os.read(descriptor, 4096)
        except OSError:  # how Linux says that no process has the terminal any more
            return
        if not data:
            return
        into.append(data)


@pytest.fixture
def tiles(tmp_path):
    folder = tmp_path / "tiles"
    folder.mkdir()
    for i in range(7):
        np.save(folder / f"tile{i}.npy", np.random.default_rng(i).random((40, 3)))
    return folder


@pytest.fixture
def large(tmp_path):
    """A cloud of 3 MB."""
    path = tmp_path / "large.npy"
    np.save(path, np.random.default_rng(0).random((250_000, 3), np.float32))
    return path


def test_several_files_are_counted_with_rate_and_time_left(command, tiles, tmp_path):
    out, errors, shown = command(tiles, "-m", 3, "-o", tmp_path / "out", terminal=("stderr",))
    assert [line.split(" -> ")[0][-9:] for line in out.splitlines()] == [
        f"tile{i}.npy" for i in range(7)
    ]
    assert errors == ""
    assert re.search(r"\b0/7 \[00:00<", shown)
    assert re.search(r"\b7/7 \[\d\d:\d\d<00:00, .*(file/s|s/file)\]", shown)


def test_an_upload_is_counted_in_bytes(command, server, large, tmp_path):
    server.message_bytes = 1 << 20
    words = (large, "-m", 2, "-o", tmp_path / "a.npy")
    out, _, shown = command(*words, terminal=("stderr",))
    assert "2 of 250000 points" in out
    assert server.pieces
    assert re.search(r"upload: 100%.*2\.86M/2\.86M \[.*B/s\]", shown)


@pytest.mark.parametrize("case", ["quiet", "elsewhere", "short"])
def test_without_a_terminal_with_q_and_for_short_work_nothing_is_shown(
    command, server, tiles, large, tmp_path, case
):
    if case == "short":
        words = (tiles / "tile0.npy", "-m", 2, "-o", tmp_path / "a.npy")
        assert command(*words, terminal=("stderr",))[1:] == ("", "")
        return
    server.message_bytes = 1 << 20
    quiet, terminal = (["-q"], ("stderr",)) if case == "quiet" else ([], ())
    for words in ((large, "-o", tmp_path / "a.npy"), (tiles, "-o", tmp_path / "out")):
        assert command(*words, "-m", 2, *quiet, terminal=terminal)[1:] == ("", "")


@pytest.mark.parametrize("limit", [1 << 20, 64 << 20])
async def test_progress_of_a_call_adds_up_to_the_bytes_of_the_points(
    server, client, monkeypatch, limit
):
    monkeypatch.setattr(stream, "SHOWN_FROM_BYTES", 2 << 20)
    server.message_bytes = limit
    cloud = np.random.default_rng(0).random((250_000, 3), np.float32)
    seen: list[tuple[int, int]] = []

    def progress(sent: int, total: int) -> None:
        seen.append((sent, total))

    expected = client.sample(cloud, 2, progress=progress)
    async with farpoint.AsyncClient(server.target) as twin:
        sample = await twin.sample(cloud, 2, progress=progress)
    assert np.array_equal(sample.indices, expected.indices)
    assert len(seen) > 4
    assert seen == seen[: len(seen) // 2] * 2
    assert seen[: len(seen) // 2] == sorted(set(seen))
    assert seen[-1] == (cloud.nbytes, cloud.nbytes)
    seen.clear()
    client.sample(cloud[:1000], 2, progress=progress)
    assert seen == []
