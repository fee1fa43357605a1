"""Memory of a slot, kept for its next batch."""

from collections.abc import Callable
from typing import Generic, TypeVar

from farpoint_server.compute.arrays import ALIGNMENT

Memory = TypeVar("Memory")


class Buffer(Generic[Memory]):
    """Memory that grows by powers of two; not thread-safe.

    torch caches pinned memory too, but aborts the process if some is freed after the device failed.

    Args:
        allocate: Allocates a block of a size in bytes.
        least: Bytes that it asks for at least.
    """

    def __init__(self, allocate: Callable[[int], Memory], least: int = ALIGNMENT) -> None:
        self._allocate, self._least = allocate, least
        self._memory: Memory | None = None
        self._size = 0

    def take(self, size: int) -> Memory:
        """At least `size` bytes with undefined content, until the next call."""
        if self._memory is None or size > self._size:
            self.release()  # before more is taken
            wanted = max(self._least, 1 << max(0, size - 1).bit_length())
            self._memory, self._size = self._allocate(wanted), wanted
        return self._memory

    def release(self) -> None:
        """Frees the memory, which no copy or kernel may use."""
        self._memory, self._size = None, 0
