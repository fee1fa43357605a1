"""The engine of a CUDA device: batches are launched by one thread and completed by another."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import torch

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.devices import describe_missing_code
from farpoint_server.compute.engine import Engine, service_error
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.oom import DeviceLost
from farpoint_server.compute.threads import EngineThread, Settle, prepare_thread
from farpoint_server.compute.transfer.device import CudaDevice
from farpoint_server.compute.transfer.queue import SLOTS, Outputs, TransferQueue
from farpoint_server.compute.work import Answer, Work
from farpoint_server.errors import ServiceError, StartError


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
        )
        memory.before_host_trim(self._transfers.release_buffers)

    async def start(self, first: Work[Any]) -> None:
        try:
            await super().start(first)
        except RuntimeError as error:
            if "no kernel image" not in str(error):
                raise
            text = describe_missing_code(self.device)
            raise StartError(f"--device {self.device}: {text}") from error

    def submit(self, batch: Batch[Answer]) -> Awaitable[list[Answer | ServiceError]]:
        return self._threads[0].begin(partial(self._begin, batch))

    def is_ready(self, wake: Callable[[], None]) -> bool:
        """While one batch is staged and launched, others gather for the next one."""
        return self._threads[0].is_idle(wake)

    def close(self) -> None:
        super().close()
        self._transfers.stop()

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
