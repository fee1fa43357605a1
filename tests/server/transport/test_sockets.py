"""Unix sockets: which may be replaced, and servers that start at the same time."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from farpoint_server.transport.sockets import claim_unix, reason_of

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "socket")


def listening(path, kind=socket.SOCK_STREAM):
    one = socket.socket(socket.AF_UNIX, kind)
    try:
        one.bind(path)
    except OSError:
        one.close()
        raise
    one.listen(1)
    return one


@pytest.mark.parametrize("kind", KINDS)
def test_a_socket_in_use_stays(path, kind):
    with listening(path, kind), socket.socket(socket.AF_UNIX, kind) as caller:
        with pytest.raises(OSError, match="in use"), claim_unix(path):
            pass
        caller.connect(path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_server_left_is_removed(path, kind):
    listening(path, kind).close()
    with claim_unix(path):
        listening(path).close()


def test_a_full_queue_counts_as_in_use(path):
    with listening(path):
        waiting = []
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            if waiting[-1].connect_ex(path):
                break
        with pytest.raises(OSError, match="in use"), claim_unix(path):
            pass
        for one in waiting:
            one.close()


def test_a_file_of_another_kind_stays_and_is_the_reason(path):
    with open(path, "w") as file:
        file.write("mine")
    with pytest.raises(OSError, match="not a socket"), claim_unix(path):
        pass
    with open(path) as file:
        assert file.read() == "mine"


def test_servers_that_start_together_wait_at_a_lock_of_the_folder(path):
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    with claim_unix(path), pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)
    left = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    assert os.path.dirname(path) not in left


def test_a_missing_folder_is_left_to_bind(tmp_path):
    with claim_unix(str(tmp_path / "none" / "socket")):
        pass


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EADDRINUSE, "Address already in use"), "Address already in use"),
        (OSError(98, "in use (while attempting to bind on address 'a')"), "in use"),
        (ValueError("no strerror"), "no strerror"),
    ],
)
def test_the_reason_is_the_systems(error, reason):
    assert reason_of(error) == reason
