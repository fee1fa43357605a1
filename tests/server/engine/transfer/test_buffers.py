"""Pinned buffers: powers of two, used again, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farpoint_server.engine.transfer.buffers import MIN_BYTES, PinnedBufferPool


def test_a_buffer_that_came_back_is_used_again():
    made: list[int] = []
    buffers = PinnedBufferPool(lambda size: made.append(size) or size, most=4)
    for size in (100_000, 130_000, 1, 100_000):
        buffers.give_back(buffers.take(size))
    assert made == [1 << 17]


def test_the_smallest_that_fits_is_taken():
    buffers = PinnedBufferPool(lambda size: size, most=4)
    taken = [buffers.take(size) for size in (1 << 22, 1 << 20, 1 << 21)]
    for buffer in taken:
        buffers.give_back(buffer)
    assert [buffers.take(size).size for size in (1 << 20, 1 << 20)] == [1 << 20, 1 << 21]


@given(st.lists(st.one_of(st.integers(0, 1 << 22), st.just("back"), st.just("clear"))))
def test_there_are_never_more_than_allowed_and_none_is_given_out_twice(steps):
    buffers = PinnedBufferPool(lambda _: bytearray(1), most=4)
    in_use = []
    for step in steps:
        if step == "back":
            if in_use:
                buffers.give_back(in_use.pop(0))
        elif step == "clear":
            buffers.clear()
            assert (buffers.idle_bytes, buffers.count) == (0, len(in_use))
        elif len(in_use) == 4:
            with pytest.raises(RuntimeError, match="at most 4"):
                buffers.take(step)
        else:
            in_use.append(buffers.take(step))
            assert in_use[-1].size >= max(step, MIN_BYTES)
            assert in_use[-1].size.bit_count() == 1
        assert len({id(buffer.memory) for buffer in in_use}) == len(in_use)
        assert buffers.count <= 4
