"""Shared memory for the points of large requests: a sealed memfd, passed over a Unix socket."""

import mmap
import os
import socket
import threading
from contextlib import suppress

import numpy as np
from google.protobuf.message import DecodeError

from farpoint._connection.call import CallContext
from farpoint._types import Array
from farpoint.errors import (
    DeadlineExceededError,
    FarpointError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    from_status,
)
from farpoint.v1 import shared_memory_pb2

# Below this size a request is as fast without; see docs/decisions/0013.
SHARED_FROM_BYTES = 1 << 17
# Regions are multiples of a mebibyte at least.
SMALLEST_STEP_BITS = 20
ANSWER_BYTES = 1 << 16
HANDOVER_TIMEOUT_S = 5.0
UNKNOWN_REGION = ".shared_memory.region"


class Region:
    """A memfd and the connection for which the server keeps it.

    The server unmaps it when the connection ends, also because this process is killed.
    """

    def __init__(self, path: str, size: int, context: CallContext) -> None:
        self.size = size
        descriptor = _memory_object(size)
        try:
            self._memory = mmap.mmap(descriptor, size)
            self._connection, self.name = _hand_over(path, descriptor, context)
        finally:
            os.close(descriptor)

    @property
    def is_open(self) -> bool:
        """Whether the server still has it."""
        try:
            self._connection.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def write(self, parts: list[Array]) -> None:
        """Writes arrays of one type and one row shape, stacked from the start."""
        rows = sum(len(part) for part in parts)
        shape = (rows, *parts[0].shape[1:])
        stacked = np.ndarray(shape, parts[0].dtype, self._memory)
        np.concatenate(parts, out=stacked)

    def withdraw(self, context: CallContext) -> None:
        """Withdraws it and waits until the server can accept another."""
        with suppress(OSError):  # also of a passed deadline, which the next step meets again
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.settimeout(_wait_s(context))
            self._connection.recv(1)
        self.close()

    def close(self) -> None:
        """Withdraws it."""
        self._connection.close()
        self._memory.close()


class SharedMemory:
    """Regions of one client, each for one request at a time; thread-safe."""

    def __init__(self, address: str) -> None:
        if not address.startswith("unix:"):
            raise InvalidArgumentError(
                f"shared_memory must be unix:PATH, got {address!r}", field="shared_memory"
            )
        if not hasattr(os, "memfd_create"):
            raise InvalidArgumentError("shared_memory needs Linux", field="shared_memory")
        self._path = address.removeprefix("unix:")
        self._free: list[Region] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, size: int, context: CallContext) -> Region:
        """A region of at least `size` bytes; one that is too small is replaced."""
        while (region := self._pop(size)) is not None:
            if region.size >= size and region.is_open:
                return region
            region.withdraw(context)
            if region.size < size:
                break
        return Region(self._path, _rounded(size), context)

    def give(self, region: Region) -> None:
        """Releases a region."""
        with self._lock:
            if not self._is_closed:
                self._free.append(region)
                return
        region.close()

    def close(self) -> None:
        """Withdraws all regions; those in use when they are released."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for region in free:
            region.close()

    def forget(self) -> None:
        """Forgets the parent's regions in a forked child; the parent continues to use them.

        The lock is not taken, as a thread of the parent may have held it when it forked.
        """
        for region in self._free:
            region.close()

    def _pop(self, size: int) -> Region | None:
        """The last used free region that is large enough, or else the first."""
        with self._lock:
            large = [i for i, region in enumerate(self._free) if region.size >= size]
            return self._free.pop(large[-1] if large else 0) if self._free else None


class Lease:
    """The regions of one call, released when the call ends.

    A task that is cancelled ends its call while a thread may still wait for the server or write:
    then it is that thread that gives the region back, so that no other call writes there before.
    """

    def __init__(self, memory: SharedMemory, context: CallContext) -> None:
        self._memory = memory
        self._context = context
        self._regions: list[Region] = []
        self._lock = threading.Lock()
        self._is_writing = False
        self._is_over = False

    def share(self, parts: list[Array]) -> bytes | None:
        """Writes arrays of one dtype and one row shape, stacked, to a region; its name.

        Returns:
            None if they are so small that they are sent as fast.
        """
        size = sum(part.nbytes for part in parts)
        if size < SHARED_FROM_BYTES:
            return None
        with self._lock:
            self._is_writing = True
        try:
            region = self._memory.take(size, self._context)
            self._regions.append(region)
            region.write(parts)
        finally:
            with self._lock:
                self._is_writing = False
            if self._is_over:
                self._give_back()
        return region.name

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        unknown = isinstance(error, InvalidArgumentError) and (error.field or "").endswith(
            UNKNOWN_REGION
        )
        is_lost = unknown and not all(region.is_open for region in self._regions)
        self._is_over = True
        self._give_back()
        if is_lost:
            raise UnavailableError(
                "the server closed the shared memory's connection and does not know it",
                request_id=getattr(error, "request_id", None),
            ) from error

    def _give_back(self) -> None:
        """Releases the region, after both the write and the call have ended."""
        with self._lock:
            if self._is_writing:
                return
            regions, self._regions = self._regions, []
        for region in regions:
            self._memory.give(region)


def _rounded(size: int) -> int:
    """Size with a reserve of up to a quarter, because the next cloud may be slightly larger.

    The kernel spends no memory on what is not written.
    """
    step = 1 << max(SMALLEST_STEP_BITS, (size - 1).bit_length() - 3)
    return -(-size // step) * step


def _memory_object(size: int) -> int:
    """A file descriptor of `size` bytes that cannot shrink, as the server requires."""
    import fcntl  # there is none on Windows

    descriptor = os.memfd_create("farpoint", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def _wait_s(context: CallContext) -> float:
    """Seconds that the server may take for its next step."""
    remaining = context.remaining_s()
    if remaining == 0:
        raise DeadlineExceededError(
            f"shared memory was not ready within {context.timeout} s", request_id=context.request_id
        )
    return HANDOVER_TIMEOUT_S if remaining is None else min(remaining, HANDOVER_TIMEOUT_S)


def _hand_over(path: str, descriptor: int, context: CallContext) -> tuple[socket.socket, bytes]:
    """The connection, and the name that the server gave the memory object."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(_wait_s(context))
        connection.connect(path)
        socket.send_fds(connection, [b"\0"], [descriptor])
        connection.settimeout(_wait_s(context))
        name = _name(connection.recv(ANSWER_BYTES))
        connection.setblocking(False)
        return connection, name
    except Exception as error:
        connection.close()
        if isinstance(error, FarpointError) or not isinstance(error, OSError):
            raise
        if isinstance(error, TimeoutError):
            _wait_s(context)  # if it was the call's time that ran out, this says so
        raise UnavailableError(f"shared_memory unix:{path}: {error}") from error


def _name(answer: bytes) -> bytes:
    try:
        grant = shared_memory_pb2.SharedMemoryGrant.FromString(answer)
    except DecodeError as error:
        raise InternalError("the server answered with no SharedMemoryGrant") from error
    if grant.HasField("error"):
        raise from_status(grant.error)
    if not grant.region:
        raise UnavailableError("the server closed the connection for shared memory")
    return grant.region
