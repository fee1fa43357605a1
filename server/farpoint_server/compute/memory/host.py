"""The process's heap as a CPU device's allocator: glibc's mallinfo2, malloc_trim and mallopt."""

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from farpoint_server.compute.memory.snapshot import Headroom, Stats

# Options of mallopt (malloc.h): name, number, value.
#
# malloc_trim frees pages inside every arena, but only the main arena's end, and each thread's arena
# keeps up to 64 MiB there. A single arena can be trimmed completely.
#
# Blocks have no mappings of their own and the end of the heap is kept, so that only the policy
# gives memory back to the system.
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


@dataclass(frozen=True)
class HeapUse:
    """Bytes of a heap at one moment."""

    used: int
    """In live blocks, including those with mappings of their own."""
    free: int
    """In free blocks, resident or not."""


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


class Glibc:
    """ptmalloc of glibc 2.33 or later, over all of its arenas."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.mallinfo2.restype = _Mallinfo2
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        self._library = library
        self.name = f"glibc {library.gnu_get_libc_version().decode()}"

    def set_options(self, environ: Mapping[str, str]) -> dict[str, int]:
        """Sets options unless MALLOC_… or GLIBC_TUNABLES is set."""
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
    """An older glibc or another libc, which is not managed; its numbers are zeros."""

    name = "unknown"

    def set_options(self, environ: Mapping[str, str]) -> dict[str, int]:  # noqa: ARG002
        return {}

    def use(self) -> HeapUse:
        return HeapUse(0, 0)

    def trim(self) -> None:
        pass


Malloc: TypeAlias = Glibc | UnknownMalloc


@cache
def detect() -> Malloc:
    """The malloc of this process; glibc's unused one where another takes its place."""
    library = ctypes.CDLL(None)
    return Glibc(library) if all(hasattr(library, name) for name in _CALLS) else UnknownMalloc()


class Heap:
    """malloc's heap. malloc caches freed memory; a trim returns whole pages.

    glibc counts free bytes, but also those of pages that a trim gave back. So releasable bytes are
    measured against the last trim: anonymous memory beyond live blocks and beyond the rest then.

    Args:
        malloc: By default that of this process.
        anonymous: Reads the resident bytes that no file backs.
    """

    name = "cpu"

    def __init__(
        self, malloc: Malloc | None = None, anonymous: Callable[[], int] | None = None
    ) -> None:
        self._malloc = malloc or detect()
        self._anonymous = anonymous or anonymous_bytes
        self._rest = 0
        self._measure_rest(used=0)

    def stats(self, *, host: bool = True) -> Stats:  # noqa: ARG002
        use = self._malloc.use()
        beyond = self._anonymous() - use.used - self._rest
        releasable = min(use.free, max(0, beyond))
        return Stats(allocated=use.used, reserved=use.used + releasable, releasable=releasable)

    def headroom(self) -> Headroom:
        return machine_headroom()

    def trim(self) -> None:
        used = self._malloc.use().used
        self._malloc.trim()
        self._measure_rest(used)

    def trim_host(self) -> None:
        """Does nothing: the heap is the device."""

    def capturing(self) -> bool:
        return False

    def _measure_rest(self, used: int) -> None:
        """Measures resident memory that is neither live nor releasable: stacks, other allocators.

        What other threads free during a trim, before which `used` bytes were live, is releasable.
        """
        left = self._anonymous()
        self._rest = left - max(used, self._malloc.use().used)


_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def resident_bytes() -> int:
    """All resident bytes (RSS)."""
    return _pages()[0] * os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes() -> int:
    """Resident anonymous bytes: heap, stacks, arenas."""
    resident, shared = _pages()
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def machine_headroom(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> Headroom:
    """Available RAM, including reclaimable page cache.

    The tighter of the machine and the cgroup (version 2) counts.
    """
    values = _table(meminfo)
    free, total = (values.get(f"Mem{name}:", 0) * 1024 for name in ("Available", "Total"))
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return Headroom(free, total)
    if not limit.isdecimal() or int(limit) >= total:  # "max": no limit
        return Headroom(free, total)
    left = int(limit) - used + _table(cgroup / "memory.stat").get("inactive_file", 0)
    return Headroom(min(free, max(0, left)), int(limit))


def _pages() -> tuple[int, int]:
    """Resident pages of this process, and those of them that are shared."""
    _, resident, shared, *_ = _STATM.read_text().split()
    return int(resident), int(shared)


def _table(path: Path) -> dict[str, int]:
    """The numbers of a file with lines of a name and a number."""
    try:
        rows = (line.split() for line in path.read_text().splitlines())
        return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
    except OSError:
        return {}
