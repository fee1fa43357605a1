"""Finds out which malloc this process runs with."""

import ctypes
from functools import cache

from farpoint_server.memory import glibc, jemalloc, mimalloc
from farpoint_server.memory.malloc import Malloc, UnknownMalloc

# A name of each malloc that replaces glibc's without replacing glibc's own calls.
_REPLACEMENTS = ("mi_malloc", "mallctl", "tc_malloc")


@cache
def malloc() -> Malloc:
    """The malloc of this process; a preloaded one comes before the C library's."""
    return find(ctypes.CDLL(None))


def find(library: ctypes.CDLL) -> Malloc:
    """The malloc among the symbols of a library."""
    if any(hasattr(library, name) for name in _REPLACEMENTS):
        return mimalloc.find(library) or jemalloc.find(library) or UnknownMalloc()
    return glibc.find(library) or UnknownMalloc()
