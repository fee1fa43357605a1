"""What an exception of a forward means for memory and for the device."""

import torch

# How torch's CPU allocator words it, in a plain RuntimeError.
_CPU_OOM = ("can't allocate memory", "not enough memory")
_CUDA_ERROR_MEMORY_ALLOCATION = 2


class OutOfMemory(Exception):  # noqa: N818  a finding, which may be an answer
    """One request needs more memory than there is, even alone and after a trim."""


class TooLarge(OutOfMemory):
    """One request needs more than the device could ever give."""


class DeviceLost(Exception):  # noqa: N818
    """The device does not work any more in this process; only a restart helps."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a card or on the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, torch.AcceleratorError):
        return getattr(error, "error_code", None) == _CUDA_ERROR_MEMORY_ALLOCATION
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_OOM)


def is_sticky(error: BaseException) -> bool:
    """Whether every later call on the device will fail too: an illegal address, a lost card."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)
