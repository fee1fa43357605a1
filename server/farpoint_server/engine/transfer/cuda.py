"""The CUDA device of a transfer: streams, events, pinned memory and copies by torch."""

import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farpoint_server.engine.transfer.buffers import Array

Kernel = Callable[..., Sequence[Tensor]]


class DeviceStream(Enum):
    """A stream of the device, ordered against others only by events."""

    UPLOAD = "upload"
    COMPUTE = "compute"
    DOWNLOAD = "download"


@cache
def _of_torch(dtype: "np.dtype[Any]") -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


@cache
def _of_numpy(dtype: torch.dtype) -> "np.dtype[Any]":
    return torch.empty(0, dtype=dtype).numpy().dtype


class CudaDevice:
    """Two streams in addition to the process's current one.

    The current stream computes, so that the allocator has one pool for kernels; torch's streams do
    not wait for it implicitly. Nothing here synchronizes the device or a stream.

    Args:
        high_priority: Whether it computes on a stream of higher priority instead.
    """

    def __init__(self, device: torch.device, *, high_priority: bool = False) -> None:
        self._device = device
        compute = torch.cuda.default_stream(device)
        if high_priority:
            compute = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self._streams = {
            DeviceStream.UPLOAD: torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
            DeviceStream.COMPUTE: compute,
            DeviceStream.DOWNLOAD: torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
        }

    def pinned(self, size: int) -> Tensor:
        """Page-locked host memory, for direct copies."""
        with torch.cuda.device(self._device):  # else the first GPU would get a context too
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def upload(self, pinned: Tensor, size: int) -> Tensor:
        """New device memory, to which an asynchronous copy of the first bytes is started."""
        with torch.cuda.stream(self._streams[DeviceStream.UPLOAD]):
            return pinned[:size].to(self._device, non_blocking=True)

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

    def download(self, target: Tensor, source: Tensor) -> None:
        """Starts an asynchronous copy to pinned memory."""
        with torch.cuda.stream(self._streams[DeviceStream.DOWNLOAD]):
            target.copy_(source, non_blocking=True)

    def call(self, kernel: Kernel, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Launches a kernel on the compute stream, asynchronously."""
        with torch.cuda.stream(self._streams[DeviceStream.COMPUTE]), torch.inference_mode():
            return kernel(*inputs)

    def record(self, stream: DeviceStream) -> torch.cuda.Event:
        """An event after everything queued on a stream so far."""
        # Blocking: a waiting thread sleeps instead of spinning.
        event: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def wait(self, stream: DeviceStream, event: torch.cuda.Event) -> None:
        """Makes later work of `stream` wait for the event."""
        self._streams[stream].wait_event(event)
