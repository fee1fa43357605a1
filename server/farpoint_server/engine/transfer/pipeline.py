"""Batches on their way to a card and back: stage, upload, launch, download, land.

The engine's thread does the first four, none of which waits for the card: it fills a pinned buffer
with the inputs, and puts a copy, a launch and a copy back into three streams that events tie. A
second thread lands each batch: it sleeps until the copy back is done. So while the kernels of one
batch run, the next one is staged and uploaded and the one before is downloaded and answered.

Whoever uses memory on several streams must tell the allocator, or keep the memory until all of
them are done with it. We keep it: a flight holds its buffers, inputs and outputs until it has
landed, which is after their last use on any stream. Nothing is then left to be tracked by events
inside the allocator, whose waiting blocks would count as neither free nor live.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

import numpy as np

from farpoint_server.engine.transfer.buffers import Buffer, Buffers
from farpoint_server.engine.transfer.card import Array, Card, Event, Kernel, Stream, Tensor
from farpoint_server.engine.transfer.layout import Layout, fill, joined, lay_out

# One batch computes, and one is copied. A third would only wait.
DEPTH = 2
BUFFERS_OF_A_FLIGHT = 2

T = TypeVar("T")
Hold = Callable[[], Callable[[], None]]


@dataclass(eq=False)
class Flight(Generic[Tensor]):
    """One batch, and all that it keeps until it has landed."""

    leave: Callable[[], None]
    """Lets trims in again."""
    source: Buffer[Tensor] | None = None
    target: Buffer[Tensor] | None = None
    layout: Layout = field(default_factory=lambda: Layout((), 0))
    """Of what lies in `source`, and later in `target`."""
    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()
    done: Event | None = None


class Pipeline(Generic[Tensor]):
    """At most two batches on one card at a time. `run` belongs to the engine's thread.

    Args:
        card: The device.
        hold: Keeps trims away from the forward that calls it, until what it returns is called.
        name: Of the thread that lands.
    """

    def __init__(self, card: Card[Tensor], hold: Hold, name: str = "landing") -> None:
        self._card = card
        self._hold = hold
        self._buffers = Buffers(card.pinned, BUFFERS_OF_A_FLIGHT * DEPTH)
        self._departed: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Held while anything departs or has landed: what a forward allocates is measured, and
        # must not be mixed up with what another one frees.
        self._changed = threading.Condition()
        self._flying = 0
        # A card that hangs does not keep the process.
        threading.Thread(target=self._land_all, name=name, daemon=True).start()

    @property
    def flying(self) -> int:
        """Batches that have departed and still hold memory."""
        return self._flying

    def run(
        self,
        inputs: Sequence[Sequence[Array]],
        kernel: Kernel[Tensor],
        finish: Callable[[Sequence[Array]], T],
    ) -> "Future[T]":
        """Sends a batch on its way; waits while two are.

        Args:
            inputs: Arrays, each in parts that are joined along the first dimension.
            kernel: Gets them on the card, launches, and returns the outputs.
            finish: Makes the answer of the outputs, in host memory and its own to keep.

        Raises:
            Exception: what staging, allocation or the launch raised; nothing is on its way then.
        """
        self.wait(DEPTH - 1)
        answer: Future[T] = Future()
        # What has departed lands, whoever still waits for it.
        answer.set_running_or_notify_cancel()
        with self._changed:
            flight = self._depart(inputs, kernel)
            self._flying += 1
        self._departed.put(partial(self._land, flight, finish, answer))
        return answer

    def wait(self, flying: int) -> None:
        """Returns when no more than so many batches are on their way."""
        with self._changed:
            self._changed.wait_for(lambda: self._flying <= flying)

    def give_back(self) -> None:
        """Lets go of the buffers that nothing uses."""
        with self._changed:
            self._buffers.clear()

    def stop(self) -> None:
        """Lets the thread end after what is on its way."""
        self._departed.put(None)

    def _depart(self, inputs: Sequence[Sequence[Array]], kernel: Kernel[Tensor]) -> Flight[Tensor]:
        flight: Flight[Tensor] = Flight(self._hold())
        try:
            self._stage(flight, inputs)
            self._upload(flight)
            self._launch(flight, kernel)
            self._download(flight)
        except BaseException:
            self._turn_back(flight)
            raise
        return flight

    def _stage(self, flight: Flight[Tensor], inputs: Sequence[Sequence[Array]]) -> None:
        flight.layout = lay_out(map(joined, inputs))
        flight.source = self._buffers.take(flight.layout.size)
        for target, parts in zip(self._views(flight.source.memory, flight), inputs, strict=True):
            fill(self._card.array(target), parts)

    def _upload(self, flight: Flight[Tensor]) -> None:
        assert flight.source is not None
        size = flight.layout.size
        memory = self._card.empty(size, Stream.UPLOAD)
        flight.inputs = self._views(memory, flight)
        staged = self._card.view(flight.source.memory, 0, np.dtype(np.uint8), (size,))
        self._card.copy(memory, staged, Stream.UPLOAD)

    def _launch(self, flight: Flight[Tensor], kernel: Kernel[Tensor]) -> None:
        self._card.wait(Stream.COMPUTE, self._card.record(Stream.UPLOAD))
        flight.outputs = self._card.call(kernel, flight.inputs)

    def _download(self, flight: Flight[Tensor]) -> None:
        self._card.wait(Stream.DOWNLOAD, self._card.record(Stream.COMPUTE))
        flight.layout = lay_out(map(self._card.layout, flight.outputs))
        flight.target = self._buffers.take(flight.layout.size)
        targets = self._views(flight.target.memory, flight)
        for target, output in zip(targets, flight.outputs, strict=True):
            self._card.copy(target, output, Stream.DOWNLOAD)
        flight.done = self._card.record(Stream.DOWNLOAD)

    def _views(self, memory: Tensor, flight: Flight[Tensor]) -> list[Tensor]:
        places = flight.layout.places
        return [self._card.view(memory, p.begin, p.dtype, p.shape) for p in places]

    def _land_all(self) -> None:
        while (land := self._departed.get()) is not None:
            land()
            # Else the request would be kept until the next one lands.
            del land

    def _land(
        self,
        flight: Flight[Tensor],
        finish: Callable[[Sequence[Array]], T],
        answer: "Future[T]",
    ) -> None:
        try:
            answer.set_result(finish(self._results(flight)))
        except BaseException as error:
            answer.set_exception(error)
        with self._changed:
            self._release(flight)
            self._flying -= 1
            self._changed.notify_all()

    def _results(self, flight: Flight[Tensor]) -> list[Array]:
        assert flight.done is not None
        assert flight.target is not None
        flight.done.synchronize()
        # Copied once more: callers keep their answers, and the buffer is for the next batch.
        return [
            np.array(self._card.array(view)) for view in self._views(flight.target.memory, flight)
        ]

    def _turn_back(self, flight: Flight[Tensor]) -> None:
        """After a failed departure: what is in the streams already still uses its memory."""
        with suppress(Exception):
            for stream in Stream:
                self._card.record(stream).synchronize()
        self._release(flight)

    def _release(self, flight: Flight[Tensor]) -> None:
        flight.inputs = flight.outputs = ()
        for buffer in (flight.source, flight.target):
            if buffer is not None:
                self._buffers.give_back(buffer)
        flight.source = flight.target = None
        flight.leave()
