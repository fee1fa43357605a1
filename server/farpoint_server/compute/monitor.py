"""asyncio tasks that poll the memory manager of each device, which trims between batches."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from farpoint_server.compute.engine import Engine
from farpoint_server.compute.memory.manager import Report

# Seconds between polls; `Thresholds.interval_s` bounds how often a device is trimmed.
POLL_S = 0.25
GAP_POLL_S = 0.02
# Failed polls in a row, over five seconds, after which the monitor gives up.
MAX_FAILURES = 20


class MemoryMonitor:
    """One task per engine.

    Args:
        waiting: Returns the number of requests in the queue.
        on_health: Called with whether a device serves, when that changes.
        report: Called with an event and its fields for each poll that fails.
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
        self._healthy = True
        self._ended = asyncio.Event()
        self._gave_up = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts to poll."""
        self._tasks = [asyncio.create_task(self._watch(engine)) for engine in self.engines]

    async def stop(self) -> None:
        """Stops trimming and reporting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def lost(self) -> str:
        """Waits until no device works, or this monitor fails; returns the reason."""
        await self._ended.wait()
        return "memory monitor failed" if self._gave_up else "device failed"

    async def trim(self, engine: Engine, *, force: bool) -> tuple[float, int] | None:
        """Trims an engine's memory when it has no work, or after the running batch.

        Returns:
            Seconds and bytes returned; None if it could not be done.
        """
        memory = engine.memory
        while True:
            if force:
                trim = await engine.call_between_batches(memory.trim)
            else:
                trim = await engine.call(lambda: memory.trim_if_idle(self._waiting()))
            if trim is not None:
                return trim.seconds, trim.returned_bytes
            if force or memory.is_lost:
                return None
            await asyncio.sleep(GAP_POLL_S)

    async def poll(self, engine: Engine) -> None:
        """Makes the engine's thread read its memory, and trim if the policy requires it."""
        await engine.call(lambda: engine.memory.poll(self._waiting()))
        await self._report_health()

    async def _watch(self, engine: Engine) -> None:
        failures = 0
        while not engine.memory.is_lost and failures < MAX_FAILURES:
            failures = 0 if await self._guard(engine, self.poll(engine)) else failures + 1
            await asyncio.sleep(self._poll_s)
        self._gave_up |= not engine.memory.is_lost
        await self._guard(engine, self._report_health())
        if self._gave_up or all(engine.memory.is_lost for engine in self.engines):
            self._ended.set()

    async def _guard(self, engine: Engine, step: Awaitable[None]) -> bool:
        """Whether a step succeeds; an error is reported, and may mark the device as lost."""
        try:
            await step
        except Exception as error:
            engine.memory.translate(error)
            device = engine.memory.snapshot.device
            self._report("memory poll failed", device=device, exc_info=error)
            return False
        return True

    async def _report_health(self) -> None:
        # Work of an unhealthy device goes to another (Placement).
        devices = any(engine.memory.snapshot.healthy for engine in self.engines)
        healthy = devices and not self._gave_up
        if healthy != self._healthy:
            self._healthy = healthy
            self._on_health(healthy)
