"""The fake behaves as the allocator that it stands for."""

import pytest
import torch
from tests.support.memory.fake_allocator import LARGE_SEGMENT, MIB, FakeAllocator


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
