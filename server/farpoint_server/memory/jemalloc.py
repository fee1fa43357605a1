"""What jemalloc says of the heap, and its control that gives free pages back."""

import ctypes
from collections.abc import Mapping

from farpoint_server.memory.malloc import HeapUse

# MALLCTL_ARENAS_ALL of jemalloc.h (5.0 or later).
_PURGE = b"arena.4096.purge"
_REFRESH = b"epoch"


def find(library: ctypes.CDLL) -> "Jemalloc | None":
    """jemalloc, if it is malloc here, with statistics and names that have no prefix."""
    if not hasattr(library, "mallctl"):
        return None
    size = ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
    value = ctypes.c_size_t()
    failed = library.mallctl(b"stats.resident", ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else Jemalloc(library)


class Jemalloc:
    """All arenas of the process; what threads cache for themselves counts as live."""

    tells_live = True

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        library.mallctl.argtypes = [ctypes.c_char_p, pointer, pointer, pointer, size]
        self._library = library
        self.name = f"jemalloc {self._version()}"

    def settle(self, environ: Mapping[str, str]) -> dict[str, int]:  # noqa: ARG002
        """Nothing: jemalloc gives pages back by itself after seconds."""
        return {}

    def use(self) -> HeapUse:
        epoch = ctypes.c_uint64(1)
        self._library.mallctl(_REFRESH, None, None, ctypes.byref(epoch), ctypes.sizeof(epoch))
        used, resident = self._bytes(b"stats.allocated"), self._bytes(b"stats.resident")
        return HeapUse(used, max(0, resident - used))

    def trim(self) -> None:
        self._library.mallctl(_PURGE, None, None, None, 0)

    def _bytes(self, name: bytes) -> int:
        value = ctypes.c_size_t()
        self._read(name, value)
        return value.value

    def _version(self) -> str:
        value = ctypes.c_char_p()
        self._read(b"version", value)
        return (value.value or b"").decode().partition("-")[0]

    def _read(self, name: bytes, value: ctypes.c_size_t | ctypes.c_char_p) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._library.mallctl(name, ctypes.byref(value), ctypes.byref(size), None, 0)
