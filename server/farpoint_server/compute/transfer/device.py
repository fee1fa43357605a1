"""The CUDA device of transfers: streams, an event for each, pinned memory and copies by torch."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farpoint_server.compute.work import Array, Kernel


@cache
def _of_torch(dtype: "np.dtype[Any]") -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


@cache
def _of_numpy(dtype: torch.dtype) -> "np.dtype[Any]":
    return torch.empty(0, dtype=dtype).numpy().dtype


class CudaDevice:
    """Asynchronous work on one GPU. Nothing here synchronizes the device or a stream.

    Args:
        high_priority: Whether its streams go before those of normal priority.
    """

    def __init__(self, device: torch.device, *, high_priority: bool = False) -> None:
        self._device = device
        self._priority = -1 if high_priority else 0

    def stream(self) -> torch.cuda.Stream:
        """A new stream."""
        made: torch.cuda.Stream = torch.cuda.Stream(self._device, priority=self._priority)  # type: ignore[no-untyped-call]
        return made

    def event(self) -> torch.cuda.Event:
        """A new event; a thread that waits for it sleeps instead of spinning."""
        made: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        return made

    @contextmanager
    def on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Queues the copies and kernels inside on a stream, and allocates for it."""
        with torch.cuda.stream(stream), torch.inference_mode():
            yield

    def pinned(self, size: int) -> Tensor:
        """Page-locked host memory, for direct copies."""
        with torch.cuda.device(self._device):  # else the first GPU would get a context too
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def upload(self, pinned: Tensor, size: int) -> Tensor:
        """New device memory, to which an asynchronous copy of the first bytes is started."""
        return pinned[:size].to(self._device, non_blocking=True)

    def download(self, target: Tensor, source: Tensor) -> None:
        """Starts an asynchronous copy to pinned memory."""
        target.copy_(source, non_blocking=True)

    def call(self, kernel: Kernel, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Launches a kernel."""
        return kernel(*inputs)

    def view(
        self, memory: Tensor, begin: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]
    ) -> Tensor:
        """A part of bytes as an array."""
        size = math.prod(shape) * dtype.itemsize
        return memory[begin : begin + size].view(_of_torch(dtype)).view(shape)

    def layout(self, tensor: Tensor) -> "tuple[np.dtype[Any], tuple[int, ...]]":
        """Type and shape."""
        return _of_numpy(tensor.dtype), tuple(tensor.shape)

    def array(self, pinned: Tensor) -> Array:
        """The host memory as an array; access it only while no copy uses it."""
        return pinned.numpy()
