"""Asynchronous transfers of batches to a GPU and back: stage, upload, launch, download, complete.

The engine's thread does the first four, none of which waits for the GPU. Each batch has a slot: a
stream, on which its copy, its kernels and the copy back follow one another, an event that ends
them, and pinned buffers. No stream waits for another, so the device overlaps what it can. A second
thread completes the transfers in order: it sleeps until the event of each has passed.

A transfer keeps its slot, its inputs and its outputs until it is complete, and so all that the
stream still uses.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from torch import Tensor

from farpoint_server.compute.transfer.device import CudaDevice
from farpoint_server.compute.transfer.staging import (
    PinnedBuffer,
    Place,
    fill,
    joined_layout,
    lay_out,
)
from farpoint_server.compute.work import Array, Launch

# A batch computes while others are copied; kernels of small batches run next to each other.
SLOTS = 4
Outputs: TypeAlias = list[list[Array]]
"""Of each launch, in host memory."""
Hold: TypeAlias = Callable[[], Callable[[], None]]


class Slot:
    """What one batch in flight uses, kept for the next one."""

    def __init__(self, device: CudaDevice) -> None:
        self.stream, self.done = device.stream(), device.event()
        self.source, self.target = PinnedBuffer(device.pinned), PinnedBuffer(device.pinned)


class Transfer:
    """One batch in flight."""

    def __init__(self, slot: Slot, release_gate: Callable[[], None]) -> None:
        self.slot, self.release_gate = slot, release_gate
        self.inputs: Sequence[Tensor] = ()
        self.outputs: list[Sequence[Tensor]] = []
        self.places: list[Place] = []
        """Of the outputs in `target`."""
        self.target: Tensor | None = None


class TransferQueue:
    """At most SLOTS batches in flight on one device. `start` belongs to the engine's thread.

    Args:
        hold: Keeps trims away from the calling batch until the returned function is called.
    """

    def __init__(self, device: CudaDevice, hold: Hold, name: str = "transfer") -> None:
        self._device, self._hold = device, hold
        # The slot that was used last is used next: an idle one's stream holds no memory.
        self._free = [Slot(device) for _ in range(SLOTS)]
        self._started: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Held while a transfer starts or ends: what a batch allocates is measured apart from what
        # another one frees.
        self._changed = threading.Condition()
        # A daemon: a GPU that hangs does not keep the process alive.
        threading.Thread(target=self._complete_all, name=name, daemon=True).start()

    @property
    def in_flight(self) -> int:
        """Batches that are started and still hold memory."""
        return SLOTS - len(self._free)

    def start(
        self,
        launches: Sequence[Launch],
        finish: Callable[[Outputs | None, BaseException | None], object],
    ) -> None:
        """Starts a transfer; waits while every slot is in use.

        Args:
            launches: Of one batch.
            finish: Called on another thread with the outputs, its own to keep, or an error.

        Raises:
            Exception: what staging, allocation or a launch raised; nothing is in flight then.
        """
        self.wait(SLOTS - 1)
        with self._changed:
            transfer = self._begin(launches)
        self._started.put(partial(self._complete, transfer, finish))

    def run(self, launches: Sequence[Launch]) -> Outputs:
        """The outputs of a transfer, once all before it are complete, too."""
        outputs: Future[Outputs] = Future()

        def finish(found: Outputs | None, error: BaseException | None) -> None:
            outputs.set_exception(error) if found is None else outputs.set_result(found)

        self.start(launches, finish)
        return outputs.result()

    def wait(self, in_flight: int) -> None:
        """Waits until at most so many batches are in flight."""
        with self._changed:
            self._changed.wait_for(lambda: self.in_flight <= in_flight)

    def release_buffers(self) -> None:
        """Frees the pinned buffers of free slots."""
        with self._changed:
            for slot in self._free:
                slot.source.release()
                slot.target.release()

    def stop(self) -> None:
        """Ends the thread after the batches in flight."""
        self._started.put(None)

    def _begin(self, launches: Sequence[Launch]) -> Transfer:
        transfer = Transfer(self._free.pop(), self._hold())
        try:
            with self._device.on(transfer.slot.stream):
                try:
                    self._upload(transfer, launches)
                    self._launch(transfer, launches)
                    self._download(transfer)
                finally:
                    transfer.slot.done.record(transfer.slot.stream)
        except BaseException:
            with suppress(Exception):  # queued work still uses its memory
                transfer.slot.done.synchronize()
            self._release(transfer)
            raise
        return transfer

    def _upload(self, transfer: Transfer, launches: Sequence[Launch]) -> None:
        arrays = [parts for launch in launches for parts in launch.arrays]
        places, size = lay_out(map(joined_layout, arrays))
        pinned = transfer.slot.source.take(size)
        staged = self._device.array(pinned)
        for place, parts in zip(places, arrays, strict=True):
            fill(place.view(staged), parts)
        memory = self._device.upload(pinned, size)
        transfer.inputs = self._views(memory, places)

    def _launch(self, transfer: Transfer, launches: Sequence[Launch]) -> None:
        inputs = iter(transfer.inputs)
        for launch in launches:
            tensors = [next(inputs) for _ in launch.arrays]
            transfer.outputs.append(self._device.call(launch.kernel, tensors))

    def _download(self, transfer: Transfer) -> None:
        outputs = [output for each in transfer.outputs for output in each]
        transfer.places, size = lay_out(map(self._device.layout, outputs))
        transfer.target = transfer.slot.target.take(size)
        targets = self._views(transfer.target, transfer.places)
        for target, output in zip(targets, outputs, strict=True):
            self._device.download(target, output)

    def _views(self, memory: Tensor, places: Sequence[Place]) -> list[Tensor]:
        return [self._device.view(memory, p.begin, p.dtype, p.shape) for p in places]

    def _complete_all(self) -> None:
        while (complete := self._started.get()) is not None:
            complete()
            # Else it keeps the request alive until the next one is complete.
            del complete

    def _complete(
        self,
        transfer: Transfer,
        finish: Callable[[Outputs | None, BaseException | None], object],
    ) -> None:
        outputs, failure = None, None
        try:
            outputs = self._results(transfer)
        except BaseException as error:
            failure = error
        with self._changed:
            self._release(transfer)
            self._changed.notify_all()
        finish(outputs, failure)

    def _results(self, transfer: Transfer) -> Outputs:
        assert transfer.target is not None
        transfer.slot.done.synchronize()
        # Copied, since the buffer is reused and callers keep their answers.
        memory = self._device.array(transfer.target)
        places = iter(transfer.places)
        return [[next(places).view(memory).copy() for _ in each] for each in transfer.outputs]

    def _release(self, transfer: Transfer) -> None:
        transfer.inputs, transfer.outputs, transfer.target = (), [], None
        self._free.append(transfer.slot)
        transfer.release_gate()
