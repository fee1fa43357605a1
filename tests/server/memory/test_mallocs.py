"""Other mallocs than glibc's: real ones, preloaded, where they are installed, and stand-ins."""

import ctypes
import json
import os
import subprocess
import sys
from ctypes.util import find_library
from types import SimpleNamespace

import pytest

from farpoint_server.memory import detect
from farpoint_server.memory.mimalloc import version

MIB = 1 << 20
# Prints what is resident and releasable before 128 MiB are taken, when they are freed, and trimmed.
FILL_AND_TRIM = """
import ctypes, json
from farpoint_server.memory import detect, resident
from farpoint_server.memory.heap import Heap
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
heap = Heap()
heap.trim()
seen = [(resident.anonymous_bytes(), heap.stats().releasable)]
blocks = [libc.malloc(1 << 20) for _ in range(128)]
for block in blocks:
    ctypes.memset(block, 1, 1 << 20)
used = detect.malloc().use().used
for block in blocks:
    libc.free(ctypes.c_void_p(block))
seen.append((resident.anonymous_bytes(), heap.stats().releasable))
heap.trim()
seen.append((resident.anonymous_bytes(), heap.stats().releasable))
print(json.dumps([detect.malloc().name, used, seen]))
"""
# They would give much back by themselves, and the test would see nothing.
KEEP = {
    "MIMALLOC_DECOMMIT_DELAY": "600000",
    "MIMALLOC_PURGE_DELAY": "600000",
    "MALLOC_CONF": "dirty_decay_ms:-1",
}


def preloaded(name: str) -> tuple[str, int, list[list[int]]]:
    """What a process with this malloc prints."""
    library = find_library(name)
    if library is None:
        pytest.skip(f"lib{name} is not installed")
    environ = {**os.environ, **KEEP, "LD_PRELOAD": library}
    command = [sys.executable, "-c", FILL_AND_TRIM]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", ["mimalloc", "jemalloc"])
def test_a_trim_of_a_preloaded_malloc_gives_freed_memory_back(name):
    found, used, (before, filled, trimmed) = preloaded(name)
    assert found.startswith(f"{name} ")
    assert used > MIB
    assert filled[1] > 100 * MIB
    assert filled[0] - trimmed[0] > 64 * MIB
    assert trimmed[0] - before[0] < 64 * MIB
    assert trimmed[1] < 8 * MIB


class StandInMimalloc(SimpleNamespace):
    """A library with mimalloc's names; `committed` is what it says of itself."""

    def __init__(self, committed: int, *, replaces: bool = True) -> None:
        self.committed, self.collects = committed, []
        super().__init__(
            mi_malloc=None,
            mi_version=lambda: 30503,
            mi_collect=FakeCall(self.collect),
            mi_process_info=FakeCall(self.info),
            mi_is_in_heap_region=FakeCall(lambda _: replaces),
            malloc=FakeCall(lambda _: 0x1000),
            free=FakeCall(lambda _: None),
            mallinfo2=None,
            malloc_trim=None,
        )

    def collect(self, force):
        self.collects.append(force)
        self.committed //= 2

    def info(self, *pointers):
        assert len(pointers) == 8
        ctypes.cast(pointers[5], ctypes.POINTER(ctypes.c_size_t))[0] = self.committed


class FakeCall:
    """A function of a library, which has types to be set."""

    def __init__(self, call) -> None:
        self.call = call

    def __call__(self, *arguments):
        return self.call(*arguments)


def test_mimalloc_counts_what_came_since_the_last_trim_as_free():
    library = StandInMimalloc(100)
    malloc = detect.find(library)
    assert malloc.name == "mimalloc 3.5.3"
    assert (malloc.use().used, malloc.use().free) == (100, 0)
    library.committed = 180
    assert (malloc.use().used, malloc.use().free) == (100, 80)
    malloc.trim()
    assert library.collects == [True]
    assert (malloc.use().used, malloc.use().free) == (90, 0)
    assert malloc.settle({}) == {}


@pytest.mark.parametrize(
    "library",
    [
        StandInMimalloc(0, replaces=False),
        SimpleNamespace(mi_malloc=None, malloc_trim=None, mallinfo2=None),
        SimpleNamespace(tc_malloc=None, malloc_trim=None, mallinfo2=None),
        SimpleNamespace(mallctl=lambda *_: 1, malloc_trim=None, mallinfo2=None),
        SimpleNamespace(malloc_trim=None),
    ],
    ids=["not replaced", "mimalloc too old", "tcmalloc", "jemalloc without statistics", "musl"],
)
def test_a_malloc_that_cannot_be_asked_is_left_alone(library):
    malloc = detect.find(library)
    assert malloc.name == "unknown"
    assert (malloc.use().used, malloc.use().free) == (0, 0)
    assert malloc.settle({}) == {}
    malloc.trim()


@pytest.mark.parametrize(("number", "text"), [(209, "2.0.9"), (224, "2.2.4"), (30503, "3.5.3")])
def test_the_version_of_mimalloc_is_written_as_people_do(number, text):
    assert version(number) == text
