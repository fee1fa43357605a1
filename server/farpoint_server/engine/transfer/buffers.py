"""Pinned host buffers, and the layout of several arrays in one for a single copy."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

Array = npt.NDArray[Any]
# As torch and the driver align memory: kernels use wide loads.
ALIGNMENT = 256


@dataclass(frozen=True)
class Place:
    """Offset and shape of an array."""

    begin: int
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    def view(self, memory: Array) -> Array:
        """The array in these bytes."""
        end = self.begin + math.prod(self.shape) * self.dtype.itemsize
        return memory[self.begin : end].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Layout:
    """Places one after the other."""

    places: tuple[Place, ...]
    size: int
    """In bytes."""


def lay_out(arrays: "Iterable[tuple[np.dtype[Any], tuple[int, ...]]]") -> Layout:
    """Aligned places for arrays of these types and shapes."""
    places = []
    end = 0
    for dtype, shape in arrays:
        places.append(Place(end, dtype, shape))
        end += -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return Layout(tuple(places), end)


def joined(parts: Sequence[Array]) -> "tuple[np.dtype[Any], tuple[int, ...]]":
    """Type and shape of arrays concatenated along their first dimension."""
    return parts[0].dtype, (sum(len(part) for part in parts), *parts[0].shape[1:])


def fill(target: Array, parts: Sequence[Array]) -> None:
    """Concatenates arrays into `target`, in one copy."""
    begin = 0
    for part in parts:
        target[begin : begin + len(part)] = part
        begin += len(part)


# Smaller buffers would be too small for the next batch.
MIN_BYTES = 1 << 16


@dataclass(frozen=True, eq=False)
class PinnedBuffer:
    """A block of host memory."""

    size: int
    memory: Tensor


class PinnedBufferPool:
    """A bounded pool of buffers of power-of-two sizes; not thread-safe.

    torch caches pinned memory too, but aborts the process if some is freed after the device failed.

    Args:
        pinned: Allocates a buffer of a size in bytes.
        most: Maximum number of buffers, in use and idle.
    """

    def __init__(self, pinned: Callable[[int], Tensor], most: int) -> None:
        self._pinned = pinned
        self._most = most
        self._in_use = 0
        self._idle: list[PinnedBuffer] = []

    @property
    def count(self) -> int:
        """Number of buffers."""
        return self._in_use + len(self._idle)

    @property
    def idle_bytes(self) -> int:
        """Bytes of idle buffers."""
        return sum(buffer.size for buffer in self._idle)

    def take(self, size: int) -> PinnedBuffer:
        """A buffer of at least `size` bytes with undefined content.

        Raises:
            RuntimeError: all are in use, or there is no memory for another.
        """
        if self._in_use == self._most:
            raise RuntimeError(f"buffers: expected at most {self._most} in use")
        buffer = self._fitting(size) or self._new(size)
        self._in_use += 1
        return buffer

    def give_back(self, buffer: PinnedBuffer) -> None:
        """Returns a buffer that no copy uses."""
        self._in_use -= 1
        self._idle.append(buffer)

    def clear(self) -> None:
        """Frees idle buffers."""
        self._idle.clear()

    def _fitting(self, size: int) -> PinnedBuffer | None:
        fitting = [buffer for buffer in self._idle if buffer.size >= size]
        best = min(fitting, key=lambda buffer: buffer.size, default=None)
        if best is not None:
            self._idle.remove(best)
        return best

    def _new(self, size: int) -> PinnedBuffer:
        if self.count == self._most:
            # No idle buffer is large enough: the smallest makes room.
            self._idle.remove(min(self._idle, key=lambda buffer: buffer.size))
        rounded = max(MIN_BYTES, 1 << max(0, size - 1).bit_length())
        return PinnedBuffer(rounded, self._pinned(rounded))
