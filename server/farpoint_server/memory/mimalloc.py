"""What mimalloc says of its heaps, and its call that gives free pages back."""

import ctypes
from collections.abc import Mapping

from farpoint_server.memory.malloc import HeapUse

_CALLS = ("mi_collect", "mi_is_in_heap_region", "mi_process_info", "mi_version")
# mi_process_info gives its results through pointers; committed bytes are the sixth.
_RESULTS, _COMMITTED = 8, 5


def find(library: ctypes.CDLL) -> "Mimalloc | None":
    """mimalloc, if it is loaded and malloc is its own: it may also serve one library alone."""
    if not all(hasattr(library, name) for name in _CALLS):
        return None
    for name in ("malloc", "mi_is_in_heap_region"):
        getattr(library, name).restype = ctypes.c_void_p
    library.free.argtypes = library.mi_is_in_heap_region.argtypes = [ctypes.c_void_p]
    library.mi_is_in_heap_region.restype = ctypes.c_bool
    block = library.malloc(1)
    is_its_own = library.mi_is_in_heap_region(block)
    library.free(block)
    return Mimalloc(library) if is_its_own else None


class Mimalloc:
    """All heaps of the process, one per thread.

    It counts what is committed, not what is live in that. So what was committed after a trim
    counts as live until the next one, and what has come since as free.

    `mi_collect` reaches the heap of the thread that calls it, and what all threads share: pages
    that other threads' heaps keep stay.
    """

    tells_live = False

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.mi_collect.argtypes = [ctypes.c_bool]
        self.name = f"mimalloc {version(library.mi_version())}"
        self._floor = self._committed()

    def settle(self, environ: Mapping[str, str]) -> dict[str, int]:  # noqa: ARG002
        """Nothing: mimalloc gives pages back by itself after milliseconds."""
        return {}

    def use(self) -> HeapUse:
        committed = self._committed()
        used = min(self._floor, committed)
        return HeapUse(used, committed - used)

    def trim(self) -> None:
        self._library.mi_collect(True)
        self._floor = self._committed()

    def _committed(self) -> int:
        results = (ctypes.c_size_t * _RESULTS)()
        size = ctypes.sizeof(ctypes.c_size_t)
        self._library.mi_process_info(*(ctypes.byref(results, i * size) for i in range(_RESULTS)))
        return results[_COMMITTED]


def version(number: int) -> str:
    """As people write it: 209 is 2.0.9, and with more digits 30503 is 3.5.3."""
    base = 10 if number < 1000 else 100
    return f"{number // base**2}.{number // base % base}.{number % base}"
