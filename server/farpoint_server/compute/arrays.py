"""Arrays, without their memory and in one block of it, and what is done to several."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Fields = TypeVar("Fields", bound=tuple[Any, ...])


class Shared(np.ndarray):
    """A view of memory that another process may change; copied before a kernel reads it."""


class Pinned(Shared):
    """Such a view of memory that is locked, so that a GPU copies it from where it is."""


class Piece(NamedTuple):
    """Bytes of host memory, and where they belong in a block."""

    source: Array
    """Shape (N,), uint8."""
    begin: int


class Layout(NamedTuple):
    """An array without its memory."""

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    def view(self, memory: Array, begin: int, kind: type[Array] = np.ndarray) -> Array:
        """The array in bytes, from `begin` on."""
        array: Array = kind(self.shape, self.dtype, memory, begin)
        return array


class Arrangement(NamedTuple):
    """Several arrays in one block of memory."""

    layouts: Sequence[Layout]
    begins: Sequence[int]
    """Offset of each in bytes."""
    size: int
    """Bytes of all."""


# As torch and the driver align memory: kernels use wide loads.
ALIGNMENT = 256


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """The next multiple."""
    return -(-size // alignment) * alignment


def lay_out(layouts: Sequence[Layout], alignment: int = ALIGNMENT) -> Arrangement:
    """Arrays one after the other."""
    begins, end = [], 0
    for dtype, shape in layouts:
        begins.append(end)
        end += aligned(prod(shape) * dtype.itemsize, alignment)
    return Arrangement(layouts, begins, end)


def layouts_of(arrays: Iterable[Array]) -> list[Layout]:
    """The layout of each array."""
    return [Layout(array.dtype, array.shape) for array in arrays]


def address_of(array: Array) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


def joined(parts: Sequence[Array]) -> Array:
    """Arrays concatenated along the first dimension; a single one is copied only if `Shared`."""
    if len(parts) > 1:
        return np.concatenate(parts)
    (part,) = parts
    return np.array(part) if isinstance(part, Shared) and not part.flags.owndata else part


def concatenated(parts: Sequence[Fields]) -> Fields:
    """Concatenates each field of named tuples of arrays or None."""
    columns = zip(*parts, strict=True)
    make: Any = type(parts[0])
    found: Fields = make(*(None if column[0] is None else joined(column) for column in columns))
    return found


def halves(lengths: Int64s) -> Iterator[tuple[slice, slice]]:
    """Rows and clouds of the first half of a request, and of the second."""
    middle = len(lengths) // 2
    row = int(lengths[:middle].sum())
    yield slice(row), slice(middle)
    yield slice(row, None), slice(middle, None)
