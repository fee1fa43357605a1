"""The batches in flight on a GPU, each in a slot, and the thread that completes them.

A transfer is begun by the engine's thread or, if it is small, by the event loop; nothing of that
waits for the GPU. No stream waits for another, so the device overlaps what it can. A second thread
completes the transfers in order: it spins for a moment, then sleeps until each is done.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from farpoint_server.compute.memory.oom import Aside
from farpoint_server.compute.transfer.device import CudaDevice
from farpoint_server.compute.transfer.transfer import Outputs, Slot, Transfer
from farpoint_server.compute.work import Launch

# A batch computes while others are copied; kernels of small batches run next to each other.
SLOTS = 4
# The thread that completes transfers spins for so long: waking up takes as long.
SPIN_NS = 30_000
NOTHING_ASIDE = Aside(0)
Hold: TypeAlias = Callable[[], Callable[[], None]]
Finish: TypeAlias = Callable[[Outputs | None, BaseException | None], object]


class TransferQueue:
    """At most SLOTS batches in flight on one device.

    Args:
        hold: Keeps trims away from the calling batch until the returned function is called.
        aside: Where memory of CUDA graphs counts; without it there are none.
    """

    def __init__(
        self,
        device: CudaDevice,
        hold: Hold,
        name: str = "transfer",
        aside: Aside = NOTHING_ASIDE,
    ) -> None:
        self._device, self._hold = device, hold
        # The slot that was used last is used next: an idle one's stream holds no memory.
        self._free = [Slot(device, aside) for _ in range(SLOTS)]
        self._started: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._changed = threading.Condition()
        # A daemon: a GPU that hangs does not keep the process alive.
        threading.Thread(target=self._complete_all, name=name, daemon=True).start()

    @property
    def in_flight(self) -> int:
        """Batches that are started and still hold memory."""
        return SLOTS - len(self._free)

    def begin(self, launches: Sequence[Launch]) -> Transfer | None:
        """Begins a transfer, which `complete` or `finish` ends; None while every slot is in use.

        Args:
            launches: Of one batch.

        Raises:
            Exception: what staging, allocation or a launch raised; nothing is in flight then.
        """
        with self._changed:
            if not self._free:
                return None
            slot = self._free.pop()
        transfer = Transfer(self._device, slot, self._hold())
        try:
            transfer.begin(launches)
        except BaseException:
            self._release(transfer)
            raise
        return transfer

    def complete(self, transfer: Transfer) -> Outputs:
        """The outputs of a transfer that is done."""
        try:
            return transfer.outputs()
        finally:
            self._release(transfer)

    def finish(self, transfer: Transfer, finish: Finish) -> None:
        """Calls `finish` on another thread with the outputs, once they are there, or an error."""
        self._started.put(partial(self._finish, transfer, finish))

    def start(self, launches: Sequence[Launch], finish: Finish) -> None:
        """As `begin` and `finish`; waits while every slot is in use."""
        while (transfer := self.begin(launches)) is None:
            self.wait(SLOTS - 1)
        self.finish(transfer, finish)

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

    def release_buffers(self, *, host: bool = True) -> None:
        """Frees memory of free slots: of the device, and pinned memory if `host`."""
        with self._changed:
            for slot in self._free:
                slot.release(host=host)

    def stop(self) -> None:
        """Ends the thread after the batches in flight."""
        self._started.put(None)

    def _complete_all(self) -> None:
        while (complete := self._started.get()) is not None:
            complete()
            # Else it keeps the request alive until the next one is complete.
            del complete

    def _finish(self, transfer: Transfer, finish: Finish) -> None:
        outputs, failure = None, None
        try:
            if not transfer.has_passed(SPIN_NS):
                transfer.wait()
            outputs = transfer.outputs()
        except BaseException as error:
            failure = error
        self._release(transfer)
        finish(outputs, failure)

    def _release(self, transfer: Transfer) -> None:
        transfer.drop()
        with self._changed:
            self._free.append(transfer.slot)
            transfer.release_gate()
            self._changed.notify_all()
