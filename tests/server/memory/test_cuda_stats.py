"""torch's counters, read: the keys of 2.11 and 2.13, and keys that are missing."""

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
