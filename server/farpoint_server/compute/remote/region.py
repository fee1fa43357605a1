"""Shared memory of a front end, from which it takes a block for each call to the engine.

The engine's process trusts no length, offset or value in it.
"""

import fcntl
import mmap
import os
import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Thread
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import structlog

from farpoint_server.compute.arrays import (
    Arrangement,
    Array,
    Layout,
    Pinned,
    Shared,
    address_of,
    aligned,
    lay_out,
    layouts_of,
)
from farpoint_server.compute.transfer.library import library

ALIGNMENT = 64
# F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW of <linux/fcntl.h>: this file also loads on others.
SEALS = 1 | 2 | 4
TYPES = "|b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8".split()  # noqa: SIM905
DTYPES = {name: np.dtype(name) for name in TYPES}
MAX_AXES = 32
# The beginning of a region, which an engine with a GPU locks. The system gets none of it back: the
# GPU would go on to read the former pages.
PINNED_BYTES = 32 << 20
Bytes: TypeAlias = npt.NDArray[np.uint8]
Spec: TypeAlias = Sequence[Any]
"""An array's type and shape: ["<f4", 1024, 3]."""
log = structlog.get_logger("farpoint.compute")


class DamagedError(Exception):
    """A record of another process is not what this program writes."""


class Lent(np.ndarray):
    """Bytes that go back once no array refers to them."""

    give_back: Callable[[], object] | None = None

    def __del__(self) -> None:
        if self.give_back is not None:
            self.give_back()


class Region:
    """A sealed memfd, and its free parts.

    A block belongs to the front end until the call that names it begins, and again once the engine
    has answered. So only this side allocates. The lowest free place comes first, which keeps
    memory warm; pages that were never touched take none.

    Args:
        size: Bytes of addresses.
    """

    def __init__(self, size: int) -> None:
        descriptor = os.memfd_create("farpoint-calls", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        self._memory = mmap.mmap(descriptor, size)
        self.kept_bytes = PINNED_BYTES
        """From the beginning, which the system does not get back."""
        self._free = [(0, size)]
        """Offset and size of each free part, in order; no two touch."""
        self._returned: deque[tuple[int, int]] = deque()

    @property
    def resident_bytes(self) -> int:
        """Bytes of the pages that were touched."""
        return os.fstat(self._descriptor).st_blocks * 512

    def hand_over(self, end: socket.socket, index: int) -> None:
        """Gives the engine at the other end of a socket this memory, and the front end's index."""
        socket.send_fds(end, [bytes([index])], [self._descriptor])

    def take(self, size: int) -> tuple[int, int] | None:
        """Offset and size of a new block of at least `size` bytes; None if it does not fit."""
        self._merge_returned()
        size = max(aligned(size, ALIGNMENT), ALIGNMENT)
        for at, (offset, free) in enumerate(self._free):
            if free >= size:
                self._free[at : at + 1] = [(offset + size, free - size)] if free > size else []
                return offset, size
        return None

    def free(self, block: tuple[int, int]) -> None:
        """Takes a block back; on any thread, since an answer's arrays may end on any."""
        self._returned.append(block)

    def bytes_of(self, block: tuple[int, int]) -> Bytes:
        """The bytes of a block."""
        offset, size = block
        found: Bytes = np.ndarray(size, np.uint8, self._memory, offset)
        return found

    def lend(self, block: tuple[int, int]) -> Bytes:
        """The bytes of a block, which is free once no array refers to them."""
        offset, size = block
        lent = Lent(size, np.uint8, self._memory, offset)
        lent.give_back = partial(self._returned.append, block)
        found: Bytes = lent
        return found

    def release(self) -> None:
        """Returns the pages of the free parts to the system."""
        self._merge_returned()
        for offset, size in self._free:
            begin = aligned(max(offset, self.kept_bytes), mmap.PAGESIZE)
            length = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE - begin
            if length > 0:
                self._memory.madvise(mmap.MADV_REMOVE, begin, length)

    def _merge_returned(self) -> None:
        if not self._returned:
            return
        parts = self._free
        while self._returned:
            parts.append(self._returned.popleft())
        parts.sort()
        merged = [parts[0]]
        for offset, size in parts[1:]:
            begin, before = merged[-1]
            if begin + before == offset:
                merged[-1] = (begin, before + size)
            else:
                merged.append((offset, size))
        self._free = merged


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


def specs_of(arrays: Iterable[Array]) -> list[Spec]:
    """The type and shape of each array."""
    return [(array.dtype.str, *array.shape) for array in arrays]


def arrange(arrays: Iterable[Array]) -> Arrangement:
    """Where arrays lie in a block."""
    return lay_out(layouts_of(arrays), ALIGNMENT)


def write(block: Bytes, arrays: Sequence[Array], arranged: Arrangement) -> None:
    """Copies arrays into a block that is large enough."""
    for layout, begin, array in zip(arranged.layouts, arranged.begins, arrays, strict=True):
        layout.view(block, begin)[...] = array


def read(block: Bytes, specs: Iterable[Spec], kind: type[Array] = np.ndarray) -> list[Array]:
    """The arrays in a block, as views of this kind; raises DamagedError for what exceeds it."""
    layouts, begins, size = lay_out([*map(_layout, specs)], ALIGNMENT)
    if size > len(block):
        raise DamagedError(f"{size} bytes of arrays in a block of {len(block)}")
    return [layout.view(block, at, kind) for layout, at in zip(layouts, begins, strict=True)]


def _layout(spec: Spec) -> Layout:
    name, *shape = spec
    dtype = DTYPES.get(name)
    if dtype is None or len(shape) > MAX_AXES:
        raise DamagedError("an array of another type")
    if not all(type(length) is int and 0 <= length < 1 << 48 for length in shape):
        raise DamagedError("an array of another shape")
    return Layout(dtype, tuple(shape))
