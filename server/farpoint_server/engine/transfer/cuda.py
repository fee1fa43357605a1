"""The CUDA device of a transfer: streams, events, pinned memory and copies by torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from farpoint_server.engine.transfer.device import Array, DeviceStream, Event, Kernel


class CudaDevice:
    """Two streams in addition to the one that everything else of the process uses.

    That one computes, so that the allocator's cache of kernels stays one pool; streams of torch's
    do not wait for it by themselves.

    Args:
        device: The GPU.
        passes_others: Whether it computes on a stream of its own instead, whose blocks the GPU
            starts before those of the stream that everything else uses.
    """

    def __init__(self, device: torch.device, *, passes_others: bool = False) -> None:
        self._device = device
        compute = torch.cuda.default_stream(device)
        if passes_others:
            compute = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self._streams = {
            DeviceStream.UPLOAD: torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
            DeviceStream.COMPUTE: compute,
            DeviceStream.DOWNLOAD: torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
        }

    def pinned(self, size: int) -> torch.Tensor:
        with torch.cuda.device(self._device):  # else the first GPU would get a context too
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def empty(self, size: int, stream: DeviceStream) -> torch.Tensor:
        with torch.cuda.stream(self._streams[stream]):
            return torch.empty(size, dtype=torch.uint8, device=self._device)

    def view(
        self, memory: torch.Tensor, begin: int, dtype: "np.dtype[Any]", shape: Sequence[int]
    ) -> torch.Tensor:
        size = int(np.prod(shape)) * dtype.itemsize
        of_torch = torch.from_numpy(np.empty(0, dtype)).dtype
        return memory[begin : begin + size].view(of_torch).view(tuple(shape))

    def layout(self, tensor: torch.Tensor) -> "tuple[np.dtype[Any], tuple[int, ...]]":
        return torch.empty(0, dtype=tensor.dtype).numpy().dtype, tuple(tensor.shape)

    def array(self, pinned: torch.Tensor) -> Array:
        return pinned.numpy()

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: DeviceStream) -> None:
        with torch.cuda.stream(self._streams[stream]):
            target.copy_(source, non_blocking=True)

    def call(
        self, kernel: Kernel[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        with torch.cuda.stream(self._streams[DeviceStream.COMPUTE]), torch.inference_mode():
            return kernel(*inputs)

    def record(self, stream: DeviceStream) -> Event:
        # Blocking: the thread that waits sleeps, where it would otherwise spin on a core.
        event: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def wait(self, stream: DeviceStream, event: Event) -> None:
        assert isinstance(event, torch.cuda.Event)
        self._streams[stream].wait_event(event)
