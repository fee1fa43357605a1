"""Which exceptions mean that memory ran out, and which that the device is lost."""

import pytest
import torch

from farpoint_server.memory.failures import is_out_of_memory, is_sticky


def test_torch_running_out_of_host_memory_is_recognized():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    assert is_out_of_memory(caught.value)
    assert not is_sticky(caught.value)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_running_out_is_not_sticky(error):
    assert is_out_of_memory(error)
    assert not is_sticky(error)


def test_an_illegal_address_is_sticky_and_a_bug_is_neither():
    lost = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    assert is_sticky(lost)
    assert not is_out_of_memory(lost)
    assert not is_sticky(RuntimeError("shape"))
    assert not is_out_of_memory(RuntimeError("shape"))
