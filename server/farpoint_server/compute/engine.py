"""The interface of an engine, which runs the batches of one device off the event loop."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

import torch

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.oom import DeviceLost, OutOfMemory, TooLarge
from farpoint_server.compute.threads import EngineThread
from farpoint_server.compute.work import Answer, Work
from farpoint_server.errors import (
    RETRY_MS,
    DeviceFailedError,
    OverloadedError,
    ServiceError,
    TooLargeError,
)

T = TypeVar("T")
# What outlasted its budget on the event loop leaves the loop for so many times as long.
PAUSE = 100


class Engine(ABC):
    """Runs batches on one device.

    Args:
        device: The device.
        memory: Of the device.
        threads: The engine's own.
        background: Runs long work on the same device at a lower priority. It is started and closed
            with this engine, and shares its memory manager.
    """

    at_once: int = 1
    """Batches that compute at a time."""
    depth: int = 1
    """Batches that may be given to the engine before it has answered the first of them."""
    inline_ns: int = -1
    """Nanoseconds that work may be predicted to take to be run on the event loop."""
    inline_batch_ns: int = -1
    """As `inline_ns`, for a batch of work that is joined there."""
    batches_messages: ClassVar[bool] = False
    """Whether requests are best read from their messages where a batch of them is staged."""
    device_type: ClassVar[str]

    def __init__(
        self,
        device: torch.device,
        memory: Manager,
        threads: list[EngineThread],
        background: "Engine | None" = None,
    ) -> None:
        self.device, self.memory, self.background = device, memory, background
        self._threads = threads

    async def start(self, first: Work[Any]) -> None:
        """Runs a first request, so that callers do not wait for lazy initialization.

        Raises:
            StartError: the kernels hold no code for this device.
        """
        await self.submit(Batch([first]))
        if self.background is not None:
            await self.background.start(first)

    @abstractmethod
    def submit(self, batch: Batch[Answer]) -> Awaitable[list[Answer | ServiceError]]:
        """The answer to each request of a batch, in order, from one launch where memory allows.

        Where memory runs out, a batch takes several launches, and what does not fit alone is
        answered with an error.

        Raises:
            DeviceFailedError: the device no longer works; while it is awaited.
        """

    def is_ready(self, wake: Callable[[], None]) -> bool:  # noqa: ARG002
        """Whether a batch would begin at once; if not, `wake` is called when it would."""
        return True

    def inline(self, work: Work[Answer]) -> Answer | None:  # noqa: ARG002
        """The answer to small work, computed at once on the event loop; None if it must wait."""
        return None

    def inline_batch(self, batch: Batch[Answer]) -> list[Answer | None] | None:  # noqa: ARG002
        """The answers to a small batch, as `inline`."""
        return None

    def check(self, predicted_bytes: int) -> None:
        """Raises TooLargeError for work that can never fit this device."""
        try:
            self.memory.check(predicted_bytes)
        except TooLarge as error:
            raise service_error(error) from error

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on a thread of the engine after its current batch."""
        return await self._threads[0].call(function)

    def close(self) -> None:
        """Ends the threads after their current batches."""
        if self.background is not None:
            self.background.close()
        for thread in self._threads:
            thread.stop()


def service_error(finding: OutOfMemory | DeviceLost) -> ServiceError:
    """The caller's error for a finding of the memory manager."""
    if isinstance(finding, DeviceLost):
        return DeviceFailedError("the device failed; the server restarts")
    if isinstance(finding, TooLarge):
        return TooLargeError(str(finding))
    return OverloadedError(str(finding), RETRY_MS)
