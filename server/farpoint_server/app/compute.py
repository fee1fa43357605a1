"""What computes: the engines of the devices, the scheduler before them, memory, and models."""

import asyncio
import os
from collections.abc import Sequence

import structlog
import torch

from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.priority import background_threads
from farpoint_server.memory import environment
from farpoint_server.memory.monitor import MemoryMonitor
from farpoint_server.memory.options import manager_of
from farpoint_server.memory.trimmer import Gate
from farpoint_server.models.registry import Registry
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.scheduling.lane import BatchMetrics
from farpoint_server.scheduling.watchdog import Watchdog
from farpoint_server.transport.health import Health


class Compute:
    """All that runs requests once they are arrays; needs no network.

    Attributes:
        devices: One for each engine.
        engines: Those of the devices.
        batcher: The scheduler before them.
        monitor: Of their memory.
        models: Those that are loaded.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.

    Args:
        settings: The server's.
        health: Told of engines that hang, of memory that keeps running out, and of models.
        metrics: Of each batch.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings, health: Health, metrics: BatchMetrics) -> None:
        self._settings = settings
        self._health = health
        self.devices = [devices.resolve(name) for name in settings.device]
        self.allocator_settings = os.environ.get(environment.NAME, "")
        self.engines = _make_engines(settings, self.devices, self.allocator_settings)
        background = [e.background for e in self.engines if e.background is not None]
        watchdog = Watchdog(
            settings.engine_timeout_s,
            len(self.devices),
            lambda healthy: health.report_soon("engines", healthy=healthy),
            2 if background else 1,
        )
        long_ns = int(settings.long_work_ms * 1e6)
        is_cpu = all(device.type == "cpu" for device in self.devices)
        self.batcher = Batcher(
            self.engines,
            settings.batch_points,
            watchdog,
            background=background,
            long_ns=long_ns,
            batch_ns=long_ns if long_ns and is_cpu else None,
            metrics=metrics,
        )
        self.monitor = MemoryMonitor(
            self.engines,
            lambda: self.batcher.waiting_requests,
            lambda healthy: health.report("memory", healthy=healthy),
            structlog.get_logger("farpoint.memory").error,
        )
        self.models = Registry(self.engines, health)

    async def start(self) -> None:
        """Runs a first batch on each device, loads the models, and takes work from now on."""
        for engine in self.engines:
            await engine.start()
        await self.models.load_all((*self._settings.encoder, *self._settings.model))
        self.batcher.start()
        self.monitor.start()

    async def lost(self) -> str:
        """Returns, with the reason, once only a new process can help."""
        device = asyncio.ensure_future(self.monitor.lost())
        worker = asyncio.ensure_future(self.batcher.died())
        try:
            await asyncio.wait((device, worker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            device.cancel()
            worker.cancel()
        if device.done():
            return device.result()
        await self._health.report("scheduler", healthy=False)
        return "scheduler failed"

    async def stop(self) -> None:
        """Takes no more work, and lets the engines' threads end after what they are at."""
        await self.monitor.stop()
        await self.batcher.stop()
        for engine in self.engines:
            engine.stop()


def _make_engines(
    settings: Settings, chosen: Sequence[torch.device], allocator_settings: str
) -> list[Engine]:
    threads = settings.cpu_threads or devices.cores_each(chosen)
    # That of the calling thread: small work runs on the event loop itself.
    torch.set_num_threads(threads)
    gate, options = Gate(), settings.memory_options()
    report = structlog.get_logger("farpoint.memory").info
    engines = []
    for device in chosen:
        memory = manager_of(device, options, gate, allocator_settings, report)
        background = None
        if settings.long_work_ms > 0:
            most = background_threads(threads)
            background = Engine(device, most, memory, is_background=True)
        engines.append(Engine(device, threads, memory, background=background))
    return engines
