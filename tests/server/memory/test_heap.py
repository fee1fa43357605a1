"""The real heap of this process."""

import ctypes

import pytest

from farpoint_server.memory import glibc, resident
from farpoint_server.memory.heap import Heap
from farpoint_server.memory.system import room

MIB = 1 << 20
# Below the size from which malloc maps blocks by themselves and unmaps them when they are freed.
BLOCK = 100 << 10

pytestmark = pytest.mark.skipif(not glibc.is_supported(), reason="malloc is not glibc's")


def scattered(size: int) -> None:
    """Makes `size` bytes of the heap resident and free, below a block that lives on."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    blocks = [libc.malloc(BLOCK) for _ in range(size // BLOCK)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    libc.malloc(BLOCK)
    for block in blocks:
        libc.free(ctypes.c_void_p(block))


def test_freed_memory_is_releasable_and_a_trim_gives_it_back():
    heap = Heap()
    heap.trim()
    before = heap.stats()
    scattered(64 * MIB)
    filled = heap.stats()
    assert filled.releasable - before.releasable > 48 * MIB
    assert filled.allocated - before.allocated < 8 * MIB
    resident_before = resident.resident_bytes()
    heap.trim()
    assert resident_before - resident.resident_bytes() > 48 * MIB
    assert heap.stats().releasable < 4 * MIB


def test_a_peak_is_seen_unless_free_memory_could_hide_it():
    heap = Heap()
    heap.trim()
    heap.begin_peak()
    scattered(64 * MIB)
    assert heap.peak() == pytest.approx(64 * MIB, rel=0.2)
    heap.begin_peak()
    scattered(32 * MIB)
    assert heap.peak() is None


def test_the_tighter_of_machine_and_control_group_counts(tmp_path):
    meminfo, group = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n")
    group.mkdir()
    assert (room(meminfo, group).free, room(meminfo, group).total) == (600 * 1024, 1000 * 1024)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5000\n")
    assert room(meminfo, group).total == 1000 * 1024
    (group / "memory.max").write_text("500000\n")
    (group / "memory.current").write_text("450000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 30000\n")
    assert (room(meminfo, group).free, room(meminfo, group).total) == (80_000, 500_000)
    assert room(tmp_path / "none", tmp_path / "none").total == 0
