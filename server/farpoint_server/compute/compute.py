"""The interface of compute: all that services use of the devices."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from farpoint_server.compute.devices import describe
from farpoint_server.compute.engine import Engine
from farpoint_server.compute.memory.snapshot import MemorySnapshot
from farpoint_server.compute.monitor import MemoryMonitor
from farpoint_server.compute.placement import Placement
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.work import Answer, Outcome, Work
from farpoint_server.errors import RETRY_MS, OverloadedError, TooLargeError


class Compute:
    """Runs work on the devices of the server.

    Args:
        schedulers: One for each device of the settings.
        report_health: Called with the name of a part and whether it works.
        report_event: Called with an event and its fields for each poll of memory that fails.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.
    """

    def __init__(
        self,
        schedulers: Sequence[DeviceScheduler],
        report_health: Callable[[str, bool], object],
        report_event: Callable[..., object],
        allocator_settings: str = "",
    ) -> None:
        self._schedulers = schedulers
        self._scheduler = schedulers[0] if len(schedulers) == 1 else Placement(schedulers)
        self._inline = [each for each in schedulers if each.engine.inline_ns >= 0]
        self.allocator_settings = allocator_settings
        self.engines: list[Engine] = [each.engine for each in schedulers]
        """One of each device."""
        self.is_bounded = all(engine.memory.bounded for engine in self.engines)
        """Whether every device has a bound on its memory."""
        self._monitor = MemoryMonitor(
            self.engines,
            self.waiting_requests,
            lambda healthy: report_health("memory", healthy),
            report_event,
        )

    @property
    def devices(self) -> list[torch.device]:
        """The device of each engine of the settings."""
        return [each.engine.device for each in self._schedulers]

    def describe(self) -> list[tuple[str, str]]:
        """The name of each of these devices and what it is."""
        return [(str(device), describe(device)) for device in self.devices]

    @property
    def inline_ns(self) -> int:
        """Nanoseconds that work may be predicted to take to run on the event loop; -1 for none."""
        return self._inline[0].engine.inline_ns if self._inline else -1

    @property
    def batches_messages(self) -> bool:
        """Whether an engine prefers requests that are still in their messages, however large."""
        return any(engine.batches_messages for engine in self.engines)

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """The answer to a request.

        Args:
            work: The request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            ServiceError: as `DeviceScheduler.run`, once no device is left.
        """
        return await self._scheduler.run(work, timeout_s)

    def run_inline(self, work: Work[Answer]) -> Outcome[Answer] | None:
        """The answer to small work, computed at once if a CPU is idle; None if it must wait.

        Raises:
            EngineHungError: the engine does not answer.
        """
        for scheduler in self._inline:
            outcome = scheduler.run_inline(work)
            if outcome is not None:
                return outcome
        return None

    def check(self, predicted_bytes: int) -> None:
        """Raises TooLargeError for work that can never fit any device."""
        for engine in self.engines[:-1]:
            with suppress(TooLargeError):
                engine.check(predicted_bytes)
                return
        self.engines[-1].check(predicted_bytes)

    async def warm_up(self, work: Work[Any]) -> None:
        """Runs a first request on each device; raises StartError if one cannot."""
        for scheduler in self._schedulers:
            await scheduler.engine.start(work)

    def start(self) -> None:
        """Starts to accept work."""
        for scheduler in self._schedulers:
            scheduler.start()
        self._monitor.start()

    async def stop(self) -> None:
        """Accepts no more work; the engines' threads end after their current batch."""
        await self._monitor.stop()
        for scheduler in self._schedulers:
            await scheduler.stop()
            scheduler.engine.close()

    async def lost(self) -> None:
        """Waits until no device works, when only a restart can help."""
        await self._monitor.lost()

    def waiting_requests(self) -> int:
        """Number of requests that no engine has started."""
        return sum(each.waiting_requests for each in self._schedulers)

    def waiting_points(self) -> int:
        """Points of these requests."""
        return sum(each.waiting_points for each in self._schedulers)

    def waits_s(self) -> Mapping[str, float]:
        """The predicted wait of a new request at each device."""
        return {str(each.engine.device): each.wait_ns / 1e9 for each in self._schedulers}

    def memory(self) -> list[MemorySnapshot]:
        """The latest snapshot of each device."""
        return [engine.memory.snapshot for engine in self.engines]

    async def trim_memory(self, *, force: bool) -> list[tuple[str, float, int]]:
        """Trims each device when it has no work, or after the running batch if `force`.

        Returns:
            The device, seconds, and bytes returned, of each.

        Raises:
            OverloadedError: a device was not idle in time.
        """
        trims = []
        for engine in self.engines:
            trim = await self._monitor.trim(engine, force=force)
            if trim is None:
                text = f"{engine.device} was not idle in time; nothing was trimmed"
                raise OverloadedError(text, RETRY_MS)
            trims.append((str(engine.device), *trim))
        return trims
