"""What glibc says of the heap, its one call that gives the free part of it back, its options."""

import ctypes
from collections.abc import Mapping

from farpoint_server.memory.malloc import HeapUse

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
_CALLS = ("mallinfo2", "malloc_trim", "mallopt", "gnu_get_libc_version")


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


def find(library: ctypes.CDLL) -> "Glibc | None":
    """The C library, if it is a glibc that has these calls (2.33 or later)."""
    return Glibc(library) if all(hasattr(library, name) for name in _CALLS) else None


class Glibc:
    """ptmalloc, over all of its arenas."""

    tells_live = True

    def __init__(self, library: ctypes.CDLL) -> None:
        library.mallinfo2.restype = _Mallinfo2
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        self._library = library
        self.name = f"glibc {library.gnu_get_libc_version().decode()}"

    def settle(self, environ: Mapping[str, str]) -> dict[str, int]:
        """Nothing is set where the operator has an opinion: MALLOC_… or GLIBC_TUNABLES."""
        if any(name.startswith(_OPERATOR) for name in environ):
            return {}
        set_ = self._library.mallopt
        return {name: value for name, option, value in _OPTIONS if set_(option, value)}

    def use(self) -> HeapUse:
        info = self._library.mallinfo2()
        return HeapUse(used=info.uordblks + info.hblkhd, free=info.fordblks)

    def trim(self) -> None:
        self._library.malloc_trim(0)
