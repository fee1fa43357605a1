"""The fake behaves as the allocator that it stands for."""

import pytest
import torch
from tests.support.memory.fake_allocator import LARGE_SEGMENT, MIB, SMALL_SEGMENT, FakeAllocator


def test_sizes_come_from_segments_of_their_class():
    allocator = FakeAllocator(1 << 30)
    allocator.allocate(1)
    assert allocator.stats().allocated == 512
    assert allocator.stats().reserved == SMALL_SEGMENT
    allocator.allocate(3 * MIB)
    assert allocator.stats().reserved == SMALL_SEGMENT + LARGE_SEGMENT
    allocator.allocate(31 * MIB)
    assert allocator.stats().reserved == SMALL_SEGMENT + LARGE_SEGMENT + 32 * MIB


def test_blocks_are_reused_split_and_merged():
    allocator = FakeAllocator(1 << 30)
    first, second = allocator.allocate(6 * MIB), allocator.allocate(6 * MIB)
    assert allocator.stats().segments == 1
    allocator.free(first)
    allocator.free(second)
    whole = allocator.stats()
    assert (whole.releasable, whole.split) == (LARGE_SEGMENT, 0)
    again = allocator.allocate(9 * MIB)
    assert again.segment is first.segment
    with pytest.raises(RuntimeError, match="twice"):
        allocator.free(first)


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
