"""The process's heap as a CPU device's allocator: glibc's mallinfo2, malloc_trim and mallopt."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from farpoint_server.memory import procfs
from farpoint_server.memory.allocator import Room, Stats

# A peak is believed when at most this share of it can be reused memory or other threads' doing.
DOUBT = 0.1

# Options of mallopt (malloc.h): name, number, value.
#
# malloc_trim reaches free pages inside every arena, but the end of the main arena alone, and each
# thread's arena keeps up to 64 MiB there. With a single one all of it can be given back.
#
# No block has a mapping of its own, and the end of the heap stays, so that buffers of a request
# come from the heap and go back to it, not to the system: that is for the policy to do.
_OPTIONS = (
    ("arena_max", -8, 1),
    ("mmap_max", -4, 0),
    ("trim_threshold", -1, 2**31 - 1),
)
_OPERATOR = ("MALLOC_", "GLIBC_TUNABLES")
_CALLS = ("mallinfo2", "malloc_trim", "mallopt", "gnu_get_libc_version")
_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)
# A name of each malloc that replaces glibc's without replacing mallinfo2 and malloc_trim too, which
# would then speak of a heap that nobody uses: mimalloc, jemalloc, tcmalloc.
_REPLACEMENTS = ("mi_malloc", "mallctl", "tc_malloc")


@dataclass(frozen=True)
class HeapUse:
    """Bytes of a heap at one moment."""

    used: int
    """In live blocks, those with a mapping of their own included."""
    free: int
    """In free blocks, resident or not."""


class Malloc(Protocol):
    """One implementation of malloc. Any thread may call it; other threads go on meanwhile."""

    @property
    def name(self) -> str:
        """With its version."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether its numbers mean anything."""
        ...

    def set_options(self, environ: Mapping[str, str]) -> dict[str, int]:
        """Sets options, before threads are started; returns what was set."""
        ...

    def use(self) -> HeapUse:
        """Bytes now."""
        ...

    def trim(self) -> None:
        """Gives free pages back to the system, all that it can reach."""
        ...


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


class Glibc:
    """ptmalloc of glibc 2.33 or later, over all of its arenas."""

    is_known = True

    def __init__(self, library: ctypes.CDLL) -> None:
        library.mallinfo2.restype = _Mallinfo2
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        self._library = library
        self.name = f"glibc {library.gnu_get_libc_version().decode()}"

    def set_options(self, environ: Mapping[str, str]) -> dict[str, int]:
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


class UnknownMalloc:
    """One that is left alone; its numbers are zeros."""

    name = "unknown"
    is_known = False

    def set_options(self, environ: Mapping[str, str]) -> dict[str, int]:  # noqa: ARG002
        return {}

    def use(self) -> HeapUse:
        return HeapUse(0, 0)

    def trim(self) -> None:
        pass


@cache
def detect() -> Malloc:
    """The malloc of this process; a preloaded one comes before the C library's."""
    return find(ctypes.CDLL(None))


def find(library: ctypes.CDLL) -> Malloc:
    """The malloc among the symbols of a library: glibc's, or one that is left alone."""
    is_replaced = any(hasattr(library, name) for name in _REPLACEMENTS)
    is_glibc = all(hasattr(library, name) for name in _CALLS)
    return Glibc(library) if is_glibc and not is_replaced else UnknownMalloc()


class Heap:
    """malloc's heap. malloc keeps what is freed; a trim gives its whole pages back.

    malloc says how much of its heap is free, but not how much of that is resident: with glibc,
    pages that a trim gave back still count as free. So what is releasable is measured against the
    last trim: anonymous memory beyond live blocks and beyond what was left then.

    Args:
        malloc: That of this process by default.
    """

    name = "cpu"

    def __init__(self, malloc: Malloc | None = None) -> None:
        self._malloc = malloc or detect()
        self._rest = 0
        self._before = Stats()
        self._resident = 0
        self._watching = False
        self._settle(used=0)

    def stats(self) -> Stats:
        use = self._malloc.use()
        beyond = procfs.anonymous_bytes() - use.used - self._rest
        releasable = min(use.free, max(0, beyond))
        return Stats(allocated=use.used, reserved=use.used + releasable, releasable=releasable)

    def room(self) -> Room:
        return procfs.room()

    def trim(self) -> None:
        self._malloc.trim()
        # Who wanted to free something meanwhile had to wait, and does it as soon as that is over:
        # it must not be taken for memory that a trim cannot reach.
        used = self._malloc.use().used
        self._malloc.trim()
        self._settle(used)

    def trim_host(self) -> None:
        """Nothing: on a CPU the heap is the device."""

    def capturing(self) -> bool:
        return False

    def begin_peak(self) -> None:
        self._before = self.stats()
        self._resident = procfs.resident_bytes()
        self._watching = self._malloc.is_known and procfs.reset_peak()

    def peak(self) -> int | None:
        grown = procfs.peak_bytes() - self._resident
        others = abs(self.stats().allocated - self._before.allocated)
        if not self._watching or self._before.releasable + others > DOUBT * grown:
            return None
        return grown

    def snapshot(self) -> bytes | None:
        return None

    def _settle(self, used: int) -> None:
        """What is resident now and neither live nor releasable: stacks, other allocators.

        What was live a moment ago (`used`) and no more is releasable.
        """
        left = procfs.anonymous_bytes()
        self._rest = left - max(used, self._malloc.use().used)
