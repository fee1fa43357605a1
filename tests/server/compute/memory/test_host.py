"""Allocators: the heap of this process, counters and environment of torch's, the fake one."""

import ctypes
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from farpoint_server.compute.memory import environment, host
from farpoint_server.compute.memory.cuda import read_stats
from farpoint_server.compute.memory.host import Glibc, Heap, HeapUse, machine_headroom

MIB = 1 << 20
# Below the size from which malloc maps blocks by themselves and unmaps them when they are freed.
BLOCK = 100 << 10

real_heap = pytest.mark.skipif("glibc" not in host.detect().name, reason="malloc is not glibc's")


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


def check_freed_memory():
    heap = Heap()
    heap.trim()
    before = heap.stats()
    scattered(64 * MIB)
    filled = heap.stats()
    assert filled.releasable - before.releasable > 48 * MIB
    assert filled.allocated - before.allocated < 8 * MIB
    resident_before = host.resident_bytes()
    heap.trim()
    assert resident_before - host.resident_bytes() > 48 * MIB
    assert heap.stats().releasable < 4 * MIB


@real_heap
def test_freed_memory_is_releasable_and_a_trim_gives_it_back():
    """In a process of its own, in which no other thread maps or unmaps memory meanwhile."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(check_freed_memory).result()


class SharedMalloc:
    """Live and cached bytes in numbers; another thread frees 20 MiB during the first trim."""

    name, live, cached, freed = "shared", 100 * MIB, 0, 20 * MIB

    def free(self, size):
        self.live, self.cached = self.live - size, self.cached + size

    def use(self):
        return HeapUse(self.live, self.cached + 900 * MIB)

    def trim(self):
        self.cached = 0
        self.free(self.freed)
        self.freed = 0

    def anonymous(self):
        return 40 * MIB + self.live + self.cached


def test_memory_that_others_free_during_a_trim_goes_with_the_next():
    malloc = SharedMalloc()
    heap = Heap(malloc, malloc.anonymous)
    malloc.free(30 * MIB)
    heap.trim()
    assert heap.stats().releasable == 20 * MIB
    heap.trim()
    assert (malloc.cached, heap.stats().releasable) == (0, 0)


def test_the_tighter_of_machine_and_control_group_counts(tmp_path):
    meminfo, group = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n")
    group.mkdir()
    assert (machine_headroom(meminfo, group).free, machine_headroom(meminfo, group).total) == (
        600 * 1024,
        1000 * 1024,
    )
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5000\n")
    assert machine_headroom(meminfo, group).total == 1000 * 1024
    (group / "memory.max").write_text("500000\n")
    (group / "memory.current").write_text("450000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 30000\n")
    assert (machine_headroom(meminfo, group).free, machine_headroom(meminfo, group).total) == (
        80_000,
        500_000,
    )
    assert machine_headroom(tmp_path / "none", tmp_path / "none").total == 0


class Library:
    """glibc's functions; notes what mallopt is given and refuses one option."""

    class Function:
        def __call__(self, *_):
            return b"2.41"

    def __init__(self) -> None:
        self.given: dict[int, int] = {}
        self.mallinfo2, self.malloc_trim = self.Function(), self.Function()
        self.gnu_get_libc_version = self.Function()

    def mallopt(self, option: int, value: int) -> int:
        self.given[option] = value
        return int(option != -1)


def test_the_options_are_those_of_malloc_h():
    """M_ARENA_MAX is -8, M_MMAP_MAX -4 and M_TRIM_THRESHOLD -1."""
    library = Library()
    set_ = Glibc(library).set_options({"PATH": "/bin"})
    assert library.given == {-8: 1, -4: 0, -1: 2**31 - 1}
    assert set_ == {"arena_max": 1, "mmap_max": 0}
    assert library.malloc_trim.argtypes == [ctypes.c_size_t]


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_an_operator_with_an_opinion_is_left_alone(name):
    library = Library()
    assert Glibc(library).set_options({name: "1"}) == {}
    assert not library.given


DEVICE = {
    "allocated_bytes": {"all": {"current": 100}},
    "reserved_bytes": {"all": {"current": 1000}},
    "active_bytes": {"all": {"current": 150}},
    "inactive_split_bytes": {"all": {"current": 250}},
    "num_alloc_retries": 1,
}
HOST = {"allocated_bytes": {"current": 64}, "active_bytes": {"current": 16}}


def test_a_trim_releases_what_is_neither_active_nor_split():
    stats = read_stats(DEVICE, HOST)
    assert (stats.idle, stats.releasable, stats.fragmentation) == (900, 600, 0.25)
    assert (stats.host_reserved, stats.host_releasable) == (64, 48)
    assert stats.retries == 1
    assert read_stats({}, HOST, heap_releasable=1000).host_releasable == 1048


def test_pinned_blocks_that_torch_never_counts_as_freed_hide_no_heap():
    """As torch 2.11 counts after its cache was emptied."""
    host = {"allocated_bytes": {"current": 0}, "active_bytes": {"current": 20 << 20}}
    assert read_stats({}, host, heap_releasable=1000).host_releasable == 1000


NEW, OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def test_what_is_chosen_is_one_variable():
    environ = {"PATH": "/bin"}
    value = environment.configure(environ)
    assert environ == {"PATH": "/bin", NEW: value}
    options = environment.parse(value)
    assert not options.keys() & environment.FORBIDDEN.keys()


@pytest.mark.parametrize("name", [NEW, OLD])
def test_the_operator_wins_under_either_name(name):
    environ = {name: "roundup_power2_divisions:[256:1,>:4], expandable_segments:True"}
    options = environment.parse(environment.configure(environ))
    assert list(environ) == [NEW]
    assert options["roundup_power2_divisions"] == "[256:1,>:4]"
    assert options["expandable_segments"] == "True"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({NEW: "a:1", OLD: "b:1"}, f"set {NEW} alone, got {NEW} and {OLD}"),
        ({OLD: "max_split_size_mb:64"}, f"{OLD}: leave max_split_size_mb unset"),
        ({NEW: "x:1,garbage_collection_threshold:0.8"}, "garbage_collection_threshold"),
        ({NEW: "backend:cudaMallocAsync"}, "leave backend native"),
    ],
)
def test_what_the_promise_cannot_stand_is_refused(environ, message):
    with pytest.raises(environment.AllocatorOptionError, match=message):
        environment.configure(environ)
