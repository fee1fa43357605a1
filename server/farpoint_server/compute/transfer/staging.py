"""Several arrays in one block of memory, for a single copy."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from farpoint_server.compute.work import Array, Layout, Part

# As torch and the driver align memory: kernels use wide loads.
ALIGNMENT = 256
Memory = TypeVar("Memory")


class Place(NamedTuple):
    """Offset, type and shape of an array."""

    begin: int
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    def view(self, memory: Array) -> Array:
        """The array in these bytes."""
        array: Array = np.ndarray(self.shape, self.dtype, memory, self.begin)
        return array


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """The next multiple."""
    return -(-size // alignment) * alignment


def lay_out(arrays: Iterable[Layout], alignment: int = ALIGNMENT) -> tuple[list[Place], int]:
    """Aligned places for arrays, one after the other, and their bytes."""
    places, end = [], 0
    for dtype, shape in arrays:
        places.append(Place(end, dtype, shape))
        end += aligned(prod(shape) * dtype.itemsize, alignment)
    return places, end


def joined_layout(parts: Sequence[Part]) -> Layout:
    """Of parts concatenated along their first dimension."""
    first = parts[0]
    if len(parts) == 1:
        return Layout(first.dtype, first.shape)
    return Layout(first.dtype, (sum([part.shape[0] for part in parts]), *first.shape[1:]))


def fill(target: Array, parts: Sequence[Part]) -> None:
    """Concatenates parts into `target`, in one copy."""
    begin = 0
    for part in parts:
        end = begin + part.shape[0]
        if isinstance(part, np.ndarray):
            target[begin:end] = part
        else:
            part.fill(target[begin:end])
        begin = end


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
