"""What glibc says of the heap, its one call that gives the free part of it back, its options."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)

# Options of mallopt (malloc.h): name, number, value.
#
# malloc_trim reaches free pages inside every arena, but the end of the main arena alone, and each
# thread's arena keeps up to 64 MiB there. With a single one all of it can be given back.
#
# The thresholds are as high as glibc allows, so that buffers of a request come from the heap and go
# back to it, not to the system: when that happens is for the policy to say.
_OPTIONS = (
    ("arena_max", -8, 1),
    ("mmap_threshold", -3, 32 << 20),
    ("trim_threshold", -1, 2**31 - 1),
)
_OPERATOR = ("MALLOC_", "GLIBC_TUNABLES")


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


@dataclass(frozen=True)
class HeapUse:
    """Bytes over all arenas."""

    used: int
    """In live blocks, those with a mapping of their own included."""
    free: int
    """In free blocks, resident or not."""


@cache
def _libc() -> ctypes.CDLL | None:
    """The C library, if it is a glibc with both calls (2.33 or later) and is the malloc in use."""
    library = ctypes.CDLL(None)
    names = ("mallinfo2", "malloc_trim")
    # mimalloc and jemalloc replace malloc without replacing these two.
    replaced = any(hasattr(library, name) for name in ("mi_malloc", "mallctl", "tc_malloc"))
    if replaced or not all(hasattr(library, name) for name in names):
        return None
    library.mallinfo2.restype = _Mallinfo2
    library.malloc_trim.argtypes = [ctypes.c_size_t]
    return library


def is_supported() -> bool:
    """Whether `heap_use` and `malloc_trim` mean anything in this process."""
    return _libc() is not None


def settle(environ: Mapping[str, str]) -> dict[str, int]:
    """Sets options of the heap, before threads are started; returns what was set.

    Nothing is set where the operator has an opinion: a variable MALLOC_… or GLIBC_TUNABLES.
    """
    library = _libc()
    if library is None or any(name.startswith(_OPERATOR) for name in environ):
        return {}
    return {name: value for name, option, value in _OPTIONS if library.mallopt(option, value)}


def heap_use() -> HeapUse:
    """Bytes of the heap now; zeros where glibc is not the allocator."""
    library = _libc()
    if library is None:
        return HeapUse(0, 0)
    info = library.mallinfo2()
    return HeapUse(used=info.uordblks + info.hblkhd, free=info.fordblks)


def malloc_trim() -> None:
    """Gives every free page of every arena back to the system; other threads may go on."""
    library = _libc()
    if library is not None:
        library.malloc_trim(0)
