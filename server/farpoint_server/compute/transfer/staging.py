"""Several arrays in one block of pinned host memory, for a single copy."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from farpoint_server.compute.work import Array

# As torch and the driver align memory: kernels use wide loads.
ALIGNMENT = 256
# Smaller buffers would be too small for the next batch.
MIN_BYTES = 1 << 16


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


def lay_out(arrays: "Iterable[tuple[np.dtype[Any], tuple[int, ...]]]") -> tuple[list[Place], int]:
    """Aligned places for arrays of these types and shapes, one after the other, and their bytes."""
    places, end = [], 0
    for dtype, shape in arrays:
        places.append(Place(end, dtype, shape))
        end += -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return places, end


def joined_layout(parts: Sequence[Array]) -> "tuple[np.dtype[Any], tuple[int, ...]]":
    """Type and shape of arrays concatenated along their first dimension."""
    return parts[0].dtype, (sum([len(part) for part in parts]), *parts[0].shape[1:])


def fill(target: Array, parts: Sequence[Array]) -> None:
    """Concatenates arrays into `target`, in one copy."""
    begin = 0
    for part in parts:
        target[begin : begin + len(part)] = part
        begin += len(part)


class PinnedBuffer:
    """Page-locked memory that grows by powers of two; not thread-safe.

    torch caches pinned memory too, but aborts the process if some is freed after the device failed.

    Args:
        allocate: Allocates a block of a size in bytes.
    """

    def __init__(self, allocate: Callable[[int], Tensor]) -> None:
        self._allocate = allocate
        self._memory: Tensor | None = None
        self.size = 0

    def take(self, size: int) -> Tensor:
        """At least `size` bytes with undefined content, until the next call."""
        if self._memory is None or size > self.size:
            self.release()  # before more is taken
            wanted = max(MIN_BYTES, 1 << max(0, size - 1).bit_length())
            self._memory, self.size = self._allocate(wanted), wanted
        return self._memory

    def release(self) -> None:
        """Frees the memory, which no copy may use."""
        self._memory, self.size = None, 0
