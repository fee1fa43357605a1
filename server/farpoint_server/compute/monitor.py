"""asyncio tasks that poll the memory manager of each device, which trims between batches."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from farpoint_server.compute.engine import Engine
from farpoint_server.compute.memory.manager import Report

# Seconds between polls; `Thresholds.interval_s` bounds how often a device is trimmed.
POLL_S = 0.25
GAP_POLL_S = 0.02
# Seconds for which a forced trim holds new batches back while it waits for those that run.
FORCED_S = 2.0


class MemoryMonitor:
    """One task per engine.

    Args:
        waiting: Returns the number of requests in the queue.
        on_health: Called with whether a device serves, when that changes.
        report: Called with an event and its fields for the first of polls in a row that fail.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        waiting: Callable[[], int],
        on_health: Callable[[bool], object],
        report: Report = lambda *_, **__: None,
        poll_s: float = POLL_S,
    ) -> None:
        self.engines = engines
        self._poll_s = poll_s
        self._waiting = waiting
        self._on_health = on_health
        self._report = report
        self._is_healthy = True
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts to poll."""
        self._tasks = [asyncio.create_task(self._watch(engine)) for engine in self.engines]

    async def stop(self) -> None:
        """Stops trimming and reporting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def lost(self) -> None:
        """Waits until no device works."""
        await self._lost.wait()

    async def trim(self, engine: Engine, *, force: bool) -> tuple[float, int] | None:
        """Trims an engine's memory when it has no work, or after the running batches.

        Returns:
            Seconds and bytes returned; None if it could not be done.
        """
        memory = engine.memory
        while True:
            if force:
                trim = await engine.call(partial(memory.trim, patience_s=FORCED_S))
            else:
                trim = await engine.call(lambda: memory.trim_if_idle(self._waiting()))
            if trim is not None:
                return trim.seconds, trim.returned_bytes
            if force or memory.is_lost:
                return None
            await asyncio.sleep(GAP_POLL_S)

    async def _watch(self, engine: Engine) -> None:
        memory, is_failing = engine.memory, False
        while not memory.is_lost:
            try:
                await engine.call(lambda: memory.poll(self._waiting()))
                is_failing = False
            except Exception as error:
                memory.translate(error)  # it may lose the device
                if not is_failing:
                    device = memory.snapshot.device
                    self._report("memory poll failed", device=device, exc_info=error)
                is_failing = True
            self._report_health()
            await asyncio.sleep(self._poll_s)
        self._report_health()
        if all(engine.memory.is_lost for engine in self.engines):
            self._lost.set()

    def _report_health(self) -> None:
        # Work of an unhealthy device goes to another (Placement).
        is_healthy = any(engine.memory.snapshot.healthy for engine in self.engines)
        if is_healthy != self._is_healthy:
            self._is_healthy = is_healthy
            self._on_health(is_healthy)
