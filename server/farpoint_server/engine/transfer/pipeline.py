"""Asynchronous transfers of batches to a GPU and back: stage, upload, launch, download, complete.

The engine's thread does the first four, none of which waits for the GPU: it fills a pinned buffer
with the inputs, and queues a copy, a launch and a copy back on three streams, ordered by events. A
second thread completes each transfer: it sleeps until the copy back is done. So while the kernels
of one batch run, the next is staged and uploaded, and the previous one downloaded and answered.

Memory that several streams use must be registered with the allocator (`record_stream`) or kept
until all of them are done. We keep it: a transfer holds its buffers, inputs and outputs until it is
complete. Blocks that wait for events in the allocator would count as neither free nor live.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor

from farpoint_server.engine.transfer.buffers import (
    Array,
    Layout,
    PinnedBuffer,
    PinnedBufferPool,
    fill,
    joined,
    lay_out,
)
from farpoint_server.engine.transfer.cuda import CudaDevice, DeviceStream, Kernel

# One batch computes while another is copied. A third would only wait.
DEPTH = 2
BUFFERS_PER_TRANSFER = 2

T = TypeVar("T")
Hold = Callable[[], Callable[[], None]]


@dataclass(eq=False)
class Transfer:
    """One batch, with the memory that it holds until it is complete."""

    leave: Callable[[], None]
    """Lets trims in again."""
    source: PinnedBuffer | None = None
    target: PinnedBuffer | None = None
    layout: Layout = field(default_factory=lambda: Layout((), 0))
    """Of what lies in `source`, and later in `target`."""
    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()
    done: torch.cuda.Event | None = None


class Pipeline:
    """At most two batches in flight on one device. `submit` belongs to the engine's thread.

    Args:
        hold: Keeps trims away from the calling batch until the returned function is called.
    """

    def __init__(self, device: CudaDevice, hold: Hold, name: str = "transfer") -> None:
        self._device = device
        self._hold = hold
        self._buffers = PinnedBufferPool(device.pinned, BUFFERS_PER_TRANSFER * DEPTH)
        self._submitted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Held during a submission or completion: what a batch allocates is measured apart from
        # what another one frees.
        self._changed = threading.Condition()
        self.in_flight = 0
        """Batches that are submitted and still hold memory."""
        # A daemon: a GPU that hangs does not keep the process alive.
        threading.Thread(target=self._complete_all, name=name, daemon=True).start()

    def submit(
        self,
        inputs: Sequence[Sequence[Array]],
        kernel: Kernel,
        finish: Callable[[Sequence[Array]], T],
    ) -> "Future[T]":
        """Starts the transfer of a batch; waits while two are in flight.

        Args:
            inputs: Arrays, each in parts that are joined along the first dimension.
            kernel: Gets them on the device, launches, and returns the outputs.
            finish: Makes the answer of the outputs, in host memory and its own to keep.

        Raises:
            Exception: what staging, allocation or the launch raised; nothing is in flight then.
        """
        self.wait(DEPTH - 1)
        answer: Future[T] = Future()
        # Completed even if the caller has left.
        answer.set_running_or_notify_cancel()
        with self._changed:
            transfer = self._begin(inputs, kernel)
            self.in_flight += 1
        self._submitted.put(partial(self._complete, transfer, finish, answer))
        return answer

    def wait(self, in_flight: int) -> None:
        """Waits until at most so many batches are in flight."""
        with self._changed:
            self._changed.wait_for(lambda: self.in_flight <= in_flight)

    def give_back(self) -> None:
        """Frees unused buffers."""
        with self._changed:
            self._buffers.clear()

    def stop(self) -> None:
        """Ends the thread after the batches in flight."""
        self._submitted.put(None)

    def _begin(self, inputs: Sequence[Sequence[Array]], kernel: Kernel) -> Transfer:
        transfer = Transfer(self._hold())
        try:
            self._stage(transfer, inputs)
            self._upload(transfer)
            self._launch(transfer, kernel)
            self._download(transfer)
        except BaseException:
            self._abort(transfer)
            raise
        return transfer

    def _stage(self, transfer: Transfer, inputs: Sequence[Sequence[Array]]) -> None:
        transfer.layout = lay_out(map(joined, inputs))
        transfer.source = self._buffers.take(transfer.layout.size)
        memory = self._device.array(transfer.source.memory)
        for place, parts in zip(transfer.layout.places, inputs, strict=True):
            fill(place.view(memory), parts)

    def _upload(self, transfer: Transfer) -> None:
        assert transfer.source is not None
        memory = self._device.upload(transfer.source.memory, transfer.layout.size)
        transfer.inputs = self._views(memory, transfer)

    def _launch(self, transfer: Transfer, kernel: Kernel) -> None:
        self._device.wait(DeviceStream.COMPUTE, self._device.record(DeviceStream.UPLOAD))
        transfer.outputs = self._device.call(kernel, transfer.inputs)

    def _download(self, transfer: Transfer) -> None:
        self._device.wait(DeviceStream.DOWNLOAD, self._device.record(DeviceStream.COMPUTE))
        transfer.layout = lay_out(map(self._device.layout, transfer.outputs))
        transfer.target = self._buffers.take(transfer.layout.size)
        targets = self._views(transfer.target.memory, transfer)
        for target, output in zip(targets, transfer.outputs, strict=True):
            self._device.download(target, output)
        transfer.done = self._device.record(DeviceStream.DOWNLOAD)

    def _views(self, memory: Tensor, transfer: Transfer) -> list[Tensor]:
        places = transfer.layout.places
        return [self._device.view(memory, p.begin, p.dtype, p.shape) for p in places]

    def _complete_all(self) -> None:
        while (complete := self._submitted.get()) is not None:
            complete()
            # Else it keeps the request alive until the next one is complete.
            del complete

    def _complete(
        self,
        transfer: Transfer,
        finish: Callable[[Sequence[Array]], T],
        answer: "Future[T]",
    ) -> None:
        try:
            answer.set_result(finish(self._results(transfer)))
        except BaseException as error:
            answer.set_exception(error)
        with self._changed:
            self._release(transfer)
            self.in_flight -= 1
            self._changed.notify_all()

    def _results(self, transfer: Transfer) -> list[Array]:
        assert transfer.done is not None
        assert transfer.target is not None
        transfer.done.synchronize()
        # Copied, since the buffer is reused and callers keep their answers.
        memory = self._device.array(transfer.target.memory)
        return [place.view(memory).copy() for place in transfer.layout.places]

    def _abort(self, transfer: Transfer) -> None:
        """Waits after a failed submission, because queued work still uses its memory."""
        with suppress(Exception):
            for stream in DeviceStream:
                self._device.record(stream).synchronize()
        self._release(transfer)

    def _release(self, transfer: Transfer) -> None:
        transfer.inputs = transfer.outputs = ()
        for buffer in (transfer.source, transfer.target):
            if buffer is not None:
                self._buffers.give_back(buffer)
        transfer.source = transfer.target = None
        transfer.leave()
