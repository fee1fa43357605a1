"""Large clouds in memory that a server reads: when, where, and for how long."""

import asyncio
import mmap
import os
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import farpoint
from farpoint._connection.call import CallContext
from farpoint._connection.shared_memory import SHARED_FROM_BYTES, Lease, Region, SharedMemory
from farpoint.v1 import sampling_pb2, shared_memory_pb2, tensor_pb2

LARGE = np.random.default_rng(3).normal(size=(SHARED_FROM_BYTES // 12 + 2, 3)).astype("<f4")
Grant = shared_memory_pb2.SharedMemoryGrant


class Taker:
    """Takes memory like a server and answers with the given packets, then with names."""

    def __init__(self, path: str) -> None:
        self.address = f"unix:{path}"
        self.answers: list[bytes] = []
        self.taken: dict[bytes, tuple[socket.socket, int]] = {}
        self._ended: dict[bytes, threading.Thread] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(path)
        self._listening.listen()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        for number in range(1000):
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
            name = f"region {number}".encode()
            self.taken[name] = connection, descriptors[0]
            self._ended[name] = threading.Thread(target=self._await_end, args=[connection])
            self._ended[name].start()
            given = self.answers.pop() if self.answers else None
            connection.send(Grant(region=name).SerializeToString() if given is None else given)

    @staticmethod
    def _await_end(connection: socket.socket) -> None:
        connection.recv(1)
        connection.shutdown(socket.SHUT_RDWR)

    def read(self, tensor) -> np.ndarray:
        """The region that the tensor refers to."""
        with mmap.mmap(self.taken[tensor.shared_memory.region][1], 0, prot=mmap.PROT_READ) as data:
            size = int(np.prod(tensor.shape))
            flat = np.frombuffer(data[: 4 * size], "<f4", offset=tensor.shared_memory.offset)
        return flat.reshape(tensor.shape)

    def has_ended(self, name: bytes) -> bool:
        """Whether the client has ended the connection; waits for it if it will."""
        self._ended[name].join(0.2)
        return not self._ended[name].is_alive()

    def hang_up(self, name: bytes) -> None:
        self.taken[name][0].shutdown(socket.SHUT_RDWR)
        self._ended[name].join()

    def end(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        for (connection, descriptor), ended in zip(
            self.taken.values(), self._ended.values(), strict=True
        ):
            ended.join()
            connection.close()
            os.close(descriptor)


@pytest.fixture
def taker(tmp_path) -> Iterator[Taker]:
    taker = Taker(f"{tmp_path}/taker")
    yield taker
    taker.end()


@pytest.fixture
def memory(taker) -> Iterator[SharedMemory]:
    memory = SharedMemory(taker.address)
    yield memory
    memory.close()


def lease_of(memory: SharedMemory) -> Lease:
    """Of a call that may take as long as it wants."""
    return Lease(memory, CallContext(None))


def name_of(memory: SharedMemory, points: np.ndarray = LARGE) -> bytes:
    """Name of the region that one call uses."""
    with lease_of(memory) as lease:
        return lease.share([points])


def test_one_region_serves_call_after_call(memory):
    assert name_of(memory) == name_of(memory, LARGE[:-1]) == name_of(memory)


def test_calls_at_the_same_time_have_regions_of_their_own(memory):
    with lease_of(memory) as one, lease_of(memory) as other:
        names = {lease.share([LARGE]) for lease in (one, other)}
    assert len(names) == 2
    assert {name_of(memory), name_of(memory)} < names


def test_a_call_that_is_cancelled_before_it_is_written_keeps_no_region(memory):
    with lease_of(memory) as lease:
        pass
    name = lease.share([LARGE])
    assert name_of(memory) == name


async def test_a_cancelled_call_that_still_writes_does_not_write_into_another(
    taker, server, monkeypatch
):
    writing, go_on, written = (threading.Event() for _ in range(3))
    write = Region.write

    def write_later(region, parts):
        monkeypatch.setattr(Region, "write", write)
        writing.set()
        go_on.wait(60)
        write(region, parts)
        written.set()

    monkeypatch.setattr(Region, "write", write_later)
    first = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT32, shape=[1], data=bytes(4))
    server.answer = sampling_pb2.SampleResponse(indices=first, distances=first, lengths=[1])
    async with farpoint.AsyncClient(
        server.target, shared_memory=taker.address, checksums=False
    ) as client:
        cancelled = asyncio.create_task(client.sample(LARGE, 1))
        assert await asyncio.to_thread(writing.wait, 60)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await client.sample(-LARGE, 1)
        go_on.set()
        assert await asyncio.to_thread(written.wait, 60)
    [request] = server.requests
    np.testing.assert_array_equal(taker.read(request.points), -LARGE)
    assert taker.has_ended(b"region 0")


def test_closing_takes_every_region_back_those_in_use_when_their_call_ends(taker, memory):
    free = name_of(memory)
    with lease_of(memory) as lease:
        assert lease.share([LARGE]) == free
        memory.close()
        assert not taker.has_ended(free)
    assert taker.has_ended(free)


def test_a_region_of_a_server_that_went_away_is_not_used_again(taker, memory):
    lost = name_of(memory)
    taker.hang_up(lost)
    assert name_of(memory) != lost


def test_a_server_that_restarts_during_a_call_is_unavailable(taker, memory):
    lease = lease_of(memory)
    lease.share([LARGE])
    taker.hang_up(b"region 0")
    with (
        pytest.raises(farpoint.UnavailableError, match="closed the shared memory's connection"),
        lease,
    ):
        raise farpoint.InvalidArgumentError("unknown", field="points.shared_memory.region")


def test_other_errors_of_a_call_pass(memory):
    lease = lease_of(memory)
    lease.share([LARGE])
    with pytest.raises(farpoint.InvalidArgumentError, match="infinite"), lease:
        raise farpoint.InvalidArgumentError("infinite", field="points.data")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (b"\xff", farpoint.InternalError, "no SharedMemoryGrant"),
        (b"", farpoint.UnavailableError, "closed the connection"),
        (
            Grant(error={"code": 8, "message": "full"}).SerializeToString(),
            farpoint.ResourceExhaustedError,
            "full",
        ),
    ],
    ids=["nonsense", "none", "a refusal"],
)
def test_an_answer_without_a_region_is_the_error_of_the_call(taker, memory, answer, error, message):
    taker.answers.append(answer)
    with pytest.raises(error, match=message):
        name_of(memory)
    assert taker.has_ended(b"region 0")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "/run/farpoint", ""])
def test_an_address_that_is_not_a_socket_is_named(address):
    with pytest.raises(farpoint.InvalidArgumentError, match="unix:PATH") as caught:
        farpoint.Client(shared_memory=address)
    assert caught.value.field == "shared_memory"


async def test_without_a_server_a_large_cloud_fails_and_says_where(server, tmp_path):
    address = f"unix:{tmp_path}/nowhere"
    with farpoint.Client(server.target, shared_memory=address) as client:
        with pytest.raises(farpoint.UnavailableError, match=address):
            client.sample(LARGE, 1)
        assert len(client.sample(LARGE[:9], 1)) == 1
    async with farpoint.AsyncClient(server.target, shared_memory=address) as client:
        with pytest.raises(farpoint.UnavailableError, match=address):
            await client.sample(LARGE, 1)
    assert len(server.requests) == 1


def test_elsewhere_than_on_linux_it_is_refused(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(farpoint.InvalidArgumentError, match="needs Linux"):
        farpoint.Client(shared_memory="unix:/run/farpoint")


def test_a_forked_child_leaves_the_regions_to_its_parent(taker, server):
    """It holds none open: they end with the parent's client, not with the child."""
    number = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT32, shape=[1], data=bytes(4))
    server.answer = sampling_pb2.SampleResponse(indices=number, distances=number, lengths=[1])
    client = farpoint.Client(server.target, shared_memory=taker.address, checksums=False)
    client.sample(LARGE, 1)
    may_end, release = os.pipe()
    child = os.fork()
    if not child:
        os.close(release)
        os.read(may_end, 1)
        os._exit(0)
    os.close(may_end)
    client.sample(LARGE, 1)
    [name] = taker.taken
    assert not taker.has_ended(name)
    client.close()
    assert taker.has_ended(name)
    os.close(release)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
