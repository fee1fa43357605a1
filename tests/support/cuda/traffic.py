"""Memory traffic of kernels, counted while the CPU model executes their PTX."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tests.support.cuda.model import ALL_PTX, Executed, library

COUNTED = Executed("counted", ALL_PTX.ptx, counting=True)
SECTOR = 32  # bytes
ALIGNED = 256  # bytes, as torch's allocator does at least


class Traffic(ctypes.Structure):
    """`Totals` of tests/ops/cuda/model/ptx/traffic.h, which says what each is."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "useful_bytes",
            "requests",
            "sectors",
            "ideal_sectors",
            "l1_sectors",
            "launch_sectors",
            "shared_requests",
            "wavefronts",
            "ideal_wavefronts",
            "instructions",
        )
    ]


def counted() -> Traffic:
    """What the counting kernels of the executed build moved since the last call."""
    traffic = Traffic()
    library().model_traffic(ctypes.byref(traffic))
    return traffic


@contextmanager
def on_processors(count: int) -> Iterator[None]:
    """Launchers plan for a device of so many; the model's own has 4."""
    library().model_processors(count)
    try:
        yield
    finally:
        library().model_processors(4)


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
    """Zeros that begin where a sector does."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + ALIGNED, np.uint8)
    begin = -memory.ctypes.data % ALIGNED
    return memory[begin : begin + size].view(dtype).reshape(shape)


def aligned_copy(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The same values, where a sector begins."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy
