"""Unix sockets, and the one on which callers hand memory over."""

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.messages import MemoryObjects

from farpoint.v1 import shared_memory_pb2
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.config.settings import Settings
from farpoint_server.transport.shared_memory import SharedMemoryServer, listen
from farpoint_server.transport.sockets import claim_unix

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


SIZE = 8192
Range = shared_memory_pb2.SharedMemoryRange


@pytest.fixture
def made():
    with MemoryObjects() as make:
        yield make


@pytest.fixture
def server(tmp_path) -> SharedMemoryServer:
    return SharedMemoryServer(
        Settings(
            shared_memory_listen=f"unix:{tmp_path}/socket",
            max_shared_memory_bytes=4 * SIZE,
            max_connections=2,
        )
    )


@pytest.fixture
def regions(server) -> Regions:
    return server.regions


class Caller:
    """The other end of a listener."""

    def __init__(self, path) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(10)
        self.connection.connect(str(path))

    def hand_over(self, *descriptors: int) -> shared_memory_pb2.SharedMemoryGrant:
        socket.send_fds(self.connection, [b"\0"], descriptors)
        return shared_memory_pb2.SharedMemoryGrant.FromString(self.connection.recv(1000))

    def ends(self) -> bool:
        return self.connection.recv(1) == b""


@pytest.fixture
def call(server, tmp_path):
    """Connects to a server."""
    server.start()
    callers: list[Caller] = []

    def call() -> Caller:
        callers.append(Caller(tmp_path / "socket"))
        return callers[-1]

    yield call
    server.stop()
    assert not (tmp_path / "socket").exists()
    for caller in callers:
        caller.connection.close()


def wait_until_empty(regions: Regions) -> None:
    for _ in range(1000):
        if not regions.size:
            return
        time.sleep(0.01)
    raise AssertionError("the region is still there")


def test_a_region_lives_as_long_as_its_connection(call, regions, made):
    caller = call()
    granted = caller.hand_over(made(SIZE))
    assert regions.size == SIZE
    regions.find(Range(region=granted.region), SIZE, "points")
    caller.connection.close()
    wait_until_empty(regions)


def test_a_further_packet_takes_a_region_back(call, regions, made):
    caller = call()
    caller.hand_over(made(SIZE))
    caller.connection.send(b"more")
    assert caller.ends()
    wait_until_empty(regions)


@pytest.mark.parametrize("count", [0, 3])
def test_a_packet_has_one_file_descriptor(call, regions, made, count):
    """Of more, the others are dropped."""
    before = len(os.listdir("/proc/self/fd"))
    memory = made(SIZE)
    granted = call().hand_over(*[memory] * count)
    assert bool(granted.region) == bool(count)
    assert bool(granted.error.message) == (not count)
    assert regions.size == SIZE * bool(count)
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_a_refusal_has_its_reason_and_ends_the_connection(call, made):
    caller = call()
    error = caller.hand_over(made(SIZE, sealed=False)).error
    assert (error.code, "F_SEAL_SHRINK" in error.message) == (3, True)
    assert caller.ends()


def test_connections_are_limited(call, regions, made):
    first, second = call(), call()
    assert first.hand_over(made(SIZE)).region != second.hand_over(made(SIZE)).region
    third = call()
    with suppress(ConnectionError):  # unless its end is seen before it is sent to
        assert third.hand_over(made(SIZE)) == shared_memory_pb2.SharedMemoryGrant()
    assert regions.size == 2 * SIZE


def test_an_end_closes_every_connection_and_without_an_address_there_is_nothing(call, server, made):
    caller = call()
    assert caller.hand_over(made(SIZE)).region
    server.stop()
    assert caller.ends()
    wait_until_empty(server.regions)
    none = SharedMemoryServer(Settings())
    none.start()
    none.stop()
    assert none.address is None


def test_the_socket_of_another_server_is_not_removed(tmp_path, server):
    path = tmp_path / "socket"
    server.start()
    path.unlink()
    with listen(str(path)):
        server.stop()
        assert path.is_socket()
