"""The engine of a CUDA device: one thread launches batches, another completes them.

Small batches need neither. What has arrived in one turn of the event loop is one batch; it is
launched right there and, if that is short, waited for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import torch

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.devices import describe_missing_code
from farpoint_server.compute.engine import PAUSE, Engine, service_error
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.oom import DeviceLost
from farpoint_server.compute.threads import EngineThread, Settle, prepare_thread
from farpoint_server.compute.transfer.device import CudaDevice
from farpoint_server.compute.transfer.queue import SLOTS, TransferQueue
from farpoint_server.compute.transfer.transfer import Outputs, Transfer
from farpoint_server.compute.work import Answer, Kernel, StreamKernel, Work
from farpoint_server.errors import ServiceError, StartError

# Points of a batch that is staged on the event loop: 0.8 MB, which take a core less time than to
# hand the batch to a thread and take it back.
LOOP_POINTS = 1 << 16
# A batch is waited for on the loop if it is predicted to take so long, and handed over after as
# long. By hand on an H200, that pays for work of tenths of a millisecond, and not for milliseconds.
# After one that took longer, as behind large work of others, none is waited for PAUSE times as
# long.
LOOP_NS = 250_000


class CudaEngine(Engine):
    """Overlaps the copies and kernels of up to SLOTS batches on one GPU.

    Args:
        device: The GPU.
        cpu_threads: Threads of kernels on the host.
        memory: Of the GPU.
        background: As for `Engine`.
        is_background: Whether this is such an engine.
        transfers: To the device; made for it if None.
    """

    depth = SLOTS
    device_type = "cuda"
    batches_messages = True

    def __init__(
        self,
        device: torch.device,
        cpu_threads: int,
        memory: Manager,
        background: Engine | None = None,
        *,
        is_background: bool = False,
        transfers: TransferQueue | None = None,
    ) -> None:
        name = f"{device}{'-background' if is_background else ''}"
        prepare = partial(prepare_thread, cpu_threads, is_background)
        thread = EngineThread(f"engine-{name}", prepare)
        super().__init__(device, memory, [thread], background)
        self._transfers = transfers or TransferQueue(
            CudaDevice(device, high_priority=background is not None),
            memory.hold,
            name=f"transfer-{name}",
            aside=memory.aside,
        )
        memory.before_trim(self._transfers.release_buffers)
        self._is_background = is_background
        self._pause_ends_ns = 0

    async def start(self, first: Work[Any]) -> None:
        try:
            await super().start(first)
        except RuntimeError as error:
            if "no kernel image" not in str(error):
                raise
            text = describe_missing_code(self.device)
            raise StartError(f"--device {self.device}: {text}") from error

    def submit(self, batch: Batch[Answer]) -> Awaitable[list[Answer | ServiceError]]:
        answers = None if self._is_background else self._begin_here(batch)
        return answers or self._threads[0].begin(partial(self._begin, batch))

    def is_ready(self, wake: Callable[[], None]) -> bool:
        """While one batch is staged and launched, others gather for the next one."""
        return self._threads[0].is_idle(wake)

    def close(self) -> None:
        super().close()
        self._transfers.stop()

    def _begin_here(self, batch: Batch[Any]) -> "asyncio.Future[list[Any]] | None":
        """Launches a small batch on the event loop.

        What fails here is left to the engine's thread, where failures are understood.
        """
        if not batch.works[0].begins_on_loop or batch.point_count > LOOP_POINTS:
            return None
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        try:
            start = partial(self._start_here, batch, answers)
            has_begun = self.memory.run_inline(start, batch.predicted_bytes)
        except Exception:
            return None
        return answers if has_begun else None

    def _start_here(self, batch: Batch[Any], answers: "asyncio.Future[list[Any]]") -> bool:
        wanted = batch.wanted()
        launches = batch.launches(wanted)
        transfer = self._transfers.begin(launches) if launches else None
        if transfer is None:
            return False
        if self._waits_here(launches[0].kernel) and self._has_passed(transfer):
            answers.set_result(batch.answers(wanted, self._transfers.complete(transfer)))
        else:
            settle = Settle(answers)
            self._transfers.finish(transfer, partial(self._complete, batch, wanted, settle))
        return True

    def _waits_here(self, kernel: Kernel) -> bool:
        is_short = isinstance(kernel, StreamKernel) and kernel.predicted_ns <= LOOP_NS
        return is_short and time.monotonic_ns() >= self._pause_ends_ns

    def _has_passed(self, transfer: Transfer) -> bool:
        has_passed = transfer.has_passed(LOOP_NS)
        if not has_passed:
            self._pause_ends_ns = time.monotonic_ns() + PAUSE * LOOP_NS
        return has_passed

    def _begin(self, batch: Batch[Any], settle: Settle) -> None:
        """Launches a batch, next to those in flight only if memory allows."""
        fits = self.memory.has_headroom(batch.predicted_bytes)
        self._transfers.wait(SLOTS - 1 if fits else 0)
        is_in_flight = False

        def forward(part: Batch[Any]) -> list[Any]:
            nonlocal is_in_flight
            wanted = part.wanted()
            launches = part.launches(wanted)
            if not launches:
                return [None] * len(part)
            if part is not batch:  # cut because memory is scarce: one after the other
                return part.answers(wanted, self._transfers.run(launches))
            self._transfers.start(launches, partial(self._complete, part, wanted, settle))
            is_in_flight = True
            return [None] * len(part)

        answers = self.memory.run(batch, forward, service_error)
        if not is_in_flight:
            settle(answers)

    def _complete(
        self,
        batch: Batch[Any],
        wanted: list[int],
        settle: Settle,
        outputs: Outputs | None,
        failure: BaseException | None,
    ) -> None:
        try:
            if outputs is None:
                raise failure or RuntimeError("a transfer ended without outputs")
            settle(batch.answers(wanted, outputs))
        except Exception as error:
            found = self.memory.translate(error)
            settle(error=service_error(found) if isinstance(found, DeviceLost) else found)
