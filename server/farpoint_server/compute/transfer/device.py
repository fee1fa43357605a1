"""The CUDA device of transfers: streams, events, memory and copies by torch, batches by C++."""

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farpoint_server.compute.arrays import Arrangement, Array, Layout, Piece, address_of, aligned
from farpoint_server.compute.transfer.capturable import GraphKernel
from farpoint_server.compute.transfer.graphs import Graphs
from farpoint_server.compute.transfer.library import SampleBatch, Upload, library
from farpoint_server.compute.work import Kernel, StreamKernel


@cache
def _of_torch(dtype: "np.dtype[Any]") -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


@cache
def _of_numpy(dtype: torch.dtype) -> "np.dtype[Any]":
    return torch.empty(0, dtype=dtype).numpy().dtype


class Block:
    """Bytes of the host or of the device; what torch takes microseconds to say of them is kept."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.address = tensor.data_ptr()

    @cached_property
    def array(self) -> Array:
        """The bytes; access them only while no copy uses them."""
        return self.tensor.numpy()


class CudaDevice:
    """Asynchronous work on one GPU. Nothing here synchronizes the device or a stream.

    Args:
        high_priority: Whether its streams go before those of normal priority.
    """

    def __init__(self, device: torch.device, *, high_priority: bool = False) -> None:
        self._device = device
        self._index = device.index or 0
        self._priority = -1 if high_priority else 0

    def stream(self) -> torch.cuda.Stream:
        """A new stream."""
        made: torch.cuda.Stream = torch.cuda.Stream(self._device, priority=self._priority)  # type: ignore[no-untyped-call]
        return made

    def event(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """A new event of a stream; a thread that waits for it sleeps instead of spinning."""
        made: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        made.record(stream)  # torch makes CUDA's event with its first use
        return made

    @contextmanager
    def on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Queues the copies and kernels inside on a stream, and allocates for it."""
        with torch.cuda.stream(stream), torch.inference_mode():
            yield

    def pinned(self, size: int) -> Block:
        """Page-locked host memory, for direct copies."""
        with torch.cuda.device(self._device):  # else the first GPU would get a context too
            return Block(torch.empty(size, dtype=torch.uint8, pin_memory=True))

    def memory(self, stream: torch.cuda.Stream, size: int) -> Block:
        """Memory of the device, for work of a stream."""
        with self.on(stream):
            return Block(torch.empty(size, dtype=torch.uint8, device=self._device))

    def start(
        self,
        kernel: StreamKernel,
        uploads: Sequence[Piece],
        blocks: tuple[Block, Block],
        inputs: Arrangement,
        outputs: Arrangement,
        stream: torch.cuda.Stream,
        done: torch.cuda.Event,
    ) -> None:
        """Queues a whole batch and the event that ends it, in one call of C++.

        Args:
            kernel: Of its only launch.
            uploads: Inputs, in pinned memory.
            blocks: Memory of the device for everything, and pinned memory for the outputs.
            inputs: In the first block.
            outputs: In the last block, and in the first after the inputs.
            stream: Of the batch.
            done: Recorded after it, whatever fails.
        """
        memory, target = blocks
        batch = self._batch(kernel, inputs, outputs)
        parts = [Upload(address_of(each), begin, len(each)) for each, begin in uploads]
        array = (Upload * len(parts))(*parts)
        batch.uploads, batch.upload_count = ctypes.addressof(array), len(parts)
        batch.memory, batch.outputs = memory.address, inputs.size
        batch.scratch = inputs.size + aligned(outputs.size)
        batch.target, batch.target_bytes = target.address, outputs.size
        batch.stream, batch.event = stream.cuda_stream, done.cuda_event
        code = library().farpoint_sample_start(batch)
        if code:
            text = library().farpoint_cuda_error(code).decode()
            raise RuntimeError(f"a batch was not launched: {text} (CUDA error {code})")

    def scratch_bytes(self, kernel: StreamKernel, inputs: Arrangement, outputs: Arrangement) -> int:
        """Bytes that a kernel takes besides inputs and outputs."""
        return int(library().farpoint_sample_scratch(self._batch(kernel, inputs, outputs)))

    def _batch(
        self, kernel: StreamKernel, inputs: Arrangement, outputs: Arrangement
    ) -> SampleBatch:
        batch = kernel.batch(inputs.begins, outputs.begins)
        batch.device = self._index
        return batch

    def has_passed(self, event: torch.cuda.Event, most_ns: int) -> bool:
        """Whether an event passes, without an error, while the thread spins for so long."""
        return bool(library().farpoint_wait(event.cuda_event, most_ns) == 0)

    def upload(self, target: Tensor, source: Array) -> None:
        """Starts an asynchronous copy from pinned memory."""
        target.copy_(torch.from_numpy(source), non_blocking=True)

    def download(self, target: Tensor, source: Tensor) -> None:
        """Starts an asynchronous copy to pinned memory."""
        target.copy_(source, non_blocking=True)

    def call(
        self, kernel: Kernel | GraphKernel, inputs: Sequence[Tensor], graphs: Graphs
    ) -> Sequence[Tensor]:
        """Launches a kernel, by one of the slot's graphs where there is one."""
        if isinstance(kernel, GraphKernel):
            return graphs.launch(kernel, inputs)
        return kernel(*inputs)

    def view(
        self, memory: Tensor, begin: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]
    ) -> Tensor:
        """A part of bytes as an array."""
        size = math.prod(shape) * dtype.itemsize
        return memory[begin : begin + size].view(_of_torch(dtype)).view(shape)

    def layout(self, tensor: Tensor) -> Layout:
        """Type and shape."""
        return Layout(_of_numpy(tensor.dtype), tuple(tensor.shape))
