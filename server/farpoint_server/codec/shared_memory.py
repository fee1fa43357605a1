"""Shared-memory regions (memfd) of callers, by name."""

import fcntl
import mmap
import os
import secrets
import threading
from contextlib import suppress

from farpoint.v1 import shared_memory_pb2
from farpoint_server.errors import FULL_RETRY_MS, InvalidRequestError, OverloadedError

NAME_BYTES = 16


class Regions:
    """Memory of callers that this process reads.

    A region that is removed stays mapped for as long as a request holds a part of it.

    Args:
        max_bytes: Of all regions together; without any, there is none.
        max_read_bytes: Of one tensor, which is copied before it is used.
    """

    def __init__(self, max_bytes: int = 0, max_read_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._max_read_bytes = max_read_bytes
        self._maps: dict[bytes, mmap.mmap] = {}
        self.size = 0
        """Bytes of all regions."""
        self._lock = threading.Lock()

    def add(self, descriptor: int) -> bytes:
        """Maps a memory object and returns its name, known only to its owner.

        Raises:
            InvalidRequestError: it cannot be taken.
            OverloadedError: it does not fit with the others.
        """
        size = _checked_size(descriptor)
        if size > self._max_bytes:
            raise InvalidRequestError("memory", f"at most {self._max_bytes} bytes", size)
        name = secrets.token_bytes(NAME_BYTES)
        with self._lock:
            self._maps[name] = self._map(descriptor, size)
            self.size += size
        return name

    def remove(self, name: bytes) -> None:
        """Removes a region; its memory is unmapped at once, or after the last request in it."""
        with self._lock:
            memory = self._maps.pop(name)
            self.size -= len(memory)
        # Other threads go on meanwhile, unlike in the destructor.
        with suppress(BufferError):
            memory.close()

    def find(self, place: shared_memory_pb2.SharedMemoryRange, size: int, field: str) -> memoryview:
        """`size` bytes of a region, which the caller may change at any time: copy them first."""
        memory = self._hold(place.region)
        if memory is None:
            expected = "a region of this server whose connection is open"
            got = f"{len(place.region)} other bytes"
            raise InvalidRequestError(f"{field}.shared_memory.region", expected, got)
        if size > self._max_read_bytes:
            expected = f"at most {self._max_read_bytes} bytes of data"
            raise InvalidRequestError(f"{field}.shape", expected, f"{size} bytes")
        # Python integers: a sum that overflows 64 bits must not look small.
        if place.offset + size > len(memory):
            expected = f"{size} bytes within the {len(memory)} of the region"
            got = f"an offset of {place.offset}"
            raise InvalidRequestError(f"{field}.shared_memory.offset", expected, got)
        return memory[place.offset : place.offset + size]

    def _hold(self, name: bytes) -> memoryview | None:
        # Under the lock, so that it is not closed between being found and being held.
        with self._lock:
            memory = self._maps.get(name)
            return None if memory is None else memoryview(memory)

    def _map(self, descriptor: int, size: int) -> mmap.mmap:
        if self.size + size > self._max_bytes:
            held = f"the server shares {self.size} bytes of at most {self._max_bytes}"
            raise OverloadedError(f"{held}; no room for {size} more", FULL_RETRY_MS)
        try:
            return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        except OSError as error:
            raise OverloadedError(f"cannot be mapped: {error.strerror}", FULL_RETRY_MS) from error


def _checked_size(descriptor: int) -> int:
    """Bytes of a memory object that can be read without SIGBUS."""
    # First of all, as it asks nothing of the file's owner, who may serve the file (FUSE).
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise InvalidRequestError("memory", "a memfd", "another file") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        # Its owner could shorten it, and then reading it would kill this process.
        raise InvalidRequestError("memory", "a memfd with F_SEAL_SHRINK", f"seals {seals:#x}")
    status = os.fstat(descriptor)
    if status.st_dev != _memfd_device():
        # Huge pages can run out in mid-read, which would kill this process as well.
        raise InvalidRequestError("memory", "a memfd of ordinary pages", "one of huge pages")
    if not status.st_size:
        raise InvalidRequestError("memory", "a memfd of at least one byte", "an empty one")
    return status.st_size


def _memfd_device() -> int:
    """All memfds of ordinary pages are in one file system of the kernel's own."""
    descriptor = os.memfd_create("farpoint-probe")
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
