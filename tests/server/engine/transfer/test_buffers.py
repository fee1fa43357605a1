"""Pinned buffers: powers of two, used again, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farpoint_server.engine.transfer.buffers import MIN_BYTES, PinnedBufferPool


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
