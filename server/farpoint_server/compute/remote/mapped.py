"""A front end's region in the engine's process, which trusts no length, offset or value in it."""

import fcntl
import mmap
import os
from collections.abc import Iterable
from threading import Thread

import numpy as np
import structlog

from farpoint_server.compute.arrays import Array, Pinned, Shared, address_of
from farpoint_server.compute.remote.region import (
    PINNED_BYTES,
    SEALS,
    Bytes,
    DamagedError,
    Lent,
    Spec,
    read,
)
from farpoint_server.compute.transfer.library import library

log = structlog.get_logger("farpoint.compute")


class Mapped:
    """Memory that the other process can change at any time, though not shrink.

    Raises:
        DamagedError: it could shrink, or cannot be mapped.
    """

    def __init__(self, descriptor: int) -> None:
        try:
            if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS != SEALS:
                raise DamagedError("memory without seals")
            mapping = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        except (OSError, ValueError) as error:
            raise DamagedError(f"memory that cannot be mapped: {error}") from error
        self._memory, self._mapping = Lent(len(mapping), np.uint8, mapping), mapping
        self._pinned_bytes = 0

    def pin(self, gpu: int) -> None:
        """Locks the beginning for copies to GPUs, until no array refers to any of it.

        It takes milliseconds. Without enough memory to lock, arrays are copied first.

        Args:
            gpu: One of them, with a context.
        """
        memory, mapping, address = self._memory, self._mapping, address_of(self._memory)
        size = min(PINNED_BYTES, len(memory))
        if code := library().farpoint_pin(address, size, gpu):
            reason = library().farpoint_cuda_error(code).decode()
            log.warning("memory of a front end is not locked", reason=reason)
            return
        # It may wait for the GPU. The thread refers to the mapping until it has ended.
        unpin = Thread(target=_unpin, args=(mapping, address, gpu), daemon=True)
        memory.give_back = unpin.start
        self._pinned_bytes = size

    def block(self, offset: object, size: object) -> Bytes:
        """A part of it; raises DamagedError for what lies outside."""
        if not (type(offset) is int and type(size) is int):
            raise DamagedError("a block without bounds")
        if not 0 <= offset <= offset + size <= len(self._memory):
            raise DamagedError(f"a block of {size} bytes at {offset}")
        found: Bytes = np.ndarray(size, np.uint8, self._memory, offset)
        return found

    def read(self, offset: int, size: int, specs: Iterable[Spec]) -> list[Array]:
        """The arrays in a block.

        Integers, by which kernels address memory, are copied here; what is floating point is copied
        by the device, as a view that says so.
        """
        kind = Pinned if offset + size <= self._pinned_bytes else Shared
        return [
            array if array.dtype.kind == "f" and array.ndim > 1 else np.array(array)
            for array in read(self.block(offset, size), specs, kind)
        ]

    def drop(self) -> None:
        """Unmaps it once no array refers to it."""
        self._memory, self._mapping, self._pinned_bytes = Lent(0), mmap.mmap(-1, 1), 0


def _unpin(_mapping: mmap.mmap, address: int, gpu: int) -> None:
    library().farpoint_unpin(address, gpu)
