"""Allocators: counters and environment of torch's, and the fake of the tests."""

import pytest
import torch
from tests.support.memory.fake_allocator import LARGE_SEGMENT, MIB, FakeAllocator

from farpoint_server.memory import environment
from farpoint_server.memory.cuda import read_stats
from farpoint_server.memory.snapshot import Stats

DEVICE = {
    "allocated_bytes.all.current": 100,
    "reserved_bytes.all.current": 1000,
    "active_bytes.all.current": 150,
    "inactive_split_bytes.all.current": 250,
    "segment.all.current": 7,
    "num_alloc_retries": 1,
    "num_ooms": 2,
    "num_device_free": 3,
    "num_sync_all_streams": 4,
}
HOST = {"allocated_bytes.current": 64, "active_bytes.current": 16}


def test_native_segments_release_what_is_neither_active_nor_split():
    stats = read_stats(DEVICE, HOST, expandable=False)
    assert (stats.idle, stats.releasable, stats.fragmentation) == (900, 600, 0.25)
    assert (stats.host_reserved, stats.host_releasable) == (64, 48)
    assert (stats.segments, stats.retries, stats.ooms) == (7, 1, 2)
    assert (stats.device_frees, stats.stream_syncs) == (3, 4)


def test_expandable_segments_release_all_that_is_idle():
    stats = read_stats(DEVICE, HOST, expandable=True)
    assert (stats.releasable, stats.split, stats.fragmentation) == (900, 0, 0)


def test_missing_keys_count_as_zero():
    assert read_stats({}, {}, expandable=False) == Stats()


def test_the_heap_of_the_process_is_part_of_the_host_memory():
    assert read_stats({}, HOST, expandable=False, heap_releasable=1000).host_releasable == 1048


NEW, OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def test_what_is_chosen_is_one_variable():
    environ = {"PATH": "/bin"}
    value = environment.settle(environ, expandable=False)
    assert environ == {"PATH": "/bin", NEW: value}
    options = environment.parse(value)
    assert not environment.is_expandable(options)
    assert not options.keys() & environment.FORBIDDEN.keys()


@pytest.mark.parametrize("name", [NEW, OLD])
def test_the_operator_wins_under_either_name(name):
    environ = {name: "roundup_power2_divisions:[256:1,>:4], expandable_segments:True"}
    options = environment.parse(environment.settle(environ, expandable=False))
    assert list(environ) == [NEW]
    assert options["roundup_power2_divisions"] == "[256:1,>:4]"
    assert environment.is_expandable(options)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({NEW: "a:1", OLD: "b:1"}, f"set {NEW} alone, got {NEW} and {OLD}"),
        ({OLD: "max_split_size_mb:64"}, f"{OLD}: leave max_split_size_mb unset"),
        ({NEW: "x:1,garbage_collection_threshold:0.8"}, "garbage_collection_threshold"),
        ({NEW: "backend:cudaMallocAsync"}, "leave backend native"),
    ],
)
def test_what_the_promise_cannot_stand_is_refused(environ, said):
    with pytest.raises(environment.AllocatorOptionError, match=said):
        environment.settle(environ, expandable=False)


def test_what_shares_a_segment_with_a_live_block_is_not_released():
    allocator = FakeAllocator(1 << 30)
    kept, freed = allocator.allocate(6 * MIB), allocator.allocate(6 * MIB)
    allocator.free(freed)
    stats = allocator.stats()
    assert (stats.releasable, stats.split) == (0, LARGE_SEGMENT - 6 * MIB)
    assert stats.fragmentation == 0.7
    allocator.trim()
    assert allocator.stats().reserved == LARGE_SEGMENT
    allocator.free(kept)
    allocator.trim()
    assert allocator.stats().reserved == 0


def test_a_full_device_is_flushed_once_and_then_out_of_memory():
    allocator = FakeAllocator(64 * MIB, others=20 * MIB)
    allocator.free(allocator.allocate(20 * MIB))
    allocator.allocate(40 * MIB)
    assert allocator.retries == 1
    with pytest.raises(torch.OutOfMemoryError):
        allocator.allocate(20 * MIB)


def test_a_trim_in_flight_or_in_capture_is_an_error():
    allocator = FakeAllocator(1 << 30)
    with allocator.forward(), pytest.raises(RuntimeError, match="in flight"):
        allocator.trim()
    allocator.in_capture = True
    with pytest.raises(RuntimeError, match="captured"):
        allocator.trim()
