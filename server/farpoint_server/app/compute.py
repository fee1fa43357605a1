"""Engines of the devices, the scheduler, memory and models."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeAlias

import structlog
import torch

from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.monitor import MemoryMonitor
from farpoint_server.memory import environment
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import manager_of
from farpoint_server.models.registry import Registry
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.scheduling.batcher import Batcher, Placement, Scheduler, first_done
from farpoint_server.scheduling.lane import BatchMetrics, CostModel, Watchdog
from farpoint_server.transport.health import Health

Metrics: TypeAlias = Callable[[str], BatchMetrics]
# Batches at a time on a CPU; each takes memory.
MAX_AT_ONCE = 8


class Compute:
    """Engines, schedulers and models, which run requests in the form of arrays.

    Attributes:
        devices: One for each engine.
        batchers: One for each engine.
        batcher: The only batcher, or what chooses among several.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(
        self, settings: Settings, health: Health, metrics: Metrics, slot: ProcessSlot
    ) -> None:
        self._health = health
        self._hung: set[int] = set()
        self.allocator_settings = os.environ.get(environment.NAME, "")
        self.engines = _make_engines(settings, slot)
        self.devices = [engine.device for engine in self.engines]
        self.batchers = [
            self._make_batcher(index, settings, metrics) for index in range(len(self.engines))
        ]
        self.batcher: Scheduler = (
            self.batchers[0] if len(self.batchers) == 1 else Placement(self.batchers)
        )
        # Engines of one device share its memory and its models.
        of_devices = list({engine.device: engine for engine in self.engines}.values())
        self.monitor = MemoryMonitor(
            of_devices,
            self.waiting_requests,
            lambda healthy: health.report("memory", healthy=healthy),
            structlog.get_logger("farpoint.memory").error,
        )
        self.models = Registry(of_devices, health)

    def _make_batcher(self, index: int, settings: Settings, metrics: Metrics) -> Batcher:
        engine = self.engines[index]
        watchdog = Watchdog(settings.engine_timeout_s, partial(self._report_engine, index))
        long_ns, is_cpu = int(settings.long_work_ms * 1e6), engine.device.type == "cpu"
        return Batcher(
            *(engine, settings.batch_points, watchdog),
            long_ns=long_ns,
            batch_ns=long_ns if long_ns and is_cpu else None,
            metrics=metrics(str(engine.device)),
            costs=CostModel() if is_cpu else CostModel(attrgetter("gpu_cost_ns")),
        )

    def _report_engine(self, index: int, healthy: bool) -> None:
        """Whether an engine works."""
        (self._hung.discard if healthy else self._hung.add)(index)
        self._health.report("engines", healthy=len(self._hung) < len(self.engines))

    async def start(self, models: Sequence[str]) -> None:
        """Runs a first batch on each device, loads the models and starts to accept work."""
        for engine in self.engines:
            await engine.start()
        await self.models.load_all(models)
        for batcher in self.batchers:
            batcher.start()
        self.monitor.start()

    def waiting_requests(self) -> int:
        """Number of requests that no engine has started."""
        return sum(batcher.waiting_requests for batcher in self.batchers)

    def busy_s(self) -> float:
        """Busy seconds of the engines of the least busy device."""
        return min(batcher.busy_s for batcher in self.batchers)

    async def lost(self) -> str:
        """Waits until only a restart can help; returns the reason."""
        device = await first_done(
            self.monitor.lost(), *(batcher.died() for batcher in self.batchers)
        )
        if device is not None:
            return device
        self._health.report("scheduler", healthy=False)
        return "scheduler failed"

    async def stop(self) -> None:
        """Accepts no more work; the engines' threads end after their current batch."""
        await self.monitor.stop()
        for batcher in self.batchers:
            await batcher.stop()
        for engine in self.engines:
            engine.stop()


def _make_engines(settings: Settings, slot: ProcessSlot) -> list[Engine]:
    everything = devices.resolve_all(settings.device)
    gpus = [device for device in everything if device.type == "cuda"]
    own = slot.own(gpus)
    chosen = [device for device in everything if device.type == "cpu" or device in own]
    cores = max(1, devices.available_cores() // slot.count)
    cpus = sum(device.type == "cpu" for device in chosen)
    threads = settings.cpu_threads or max(1, cores // max(1, cpus))
    # Of this thread: small work runs on the event loop.
    torch.set_num_threads(threads)
    if gpus:
        # By default cuDNN multiplies float32 in convolutions as TF32, with 10 bits of mantissa.
        torch.backends.cudnn.allow_tf32 = False
    gate, managers = Gate(), {}
    for device in dict.fromkeys(chosen):
        managers[device] = manager_of(
            device,
            gate,
            idle_s=settings.memory_idle_s,
            limit_mib=settings.memory_limit_mib,
            reserve_mib=settings.memory_reserve_mib,
            enabled=settings.memory_policy == "on",
            report=structlog.get_logger("farpoint.memory").info,
            sharers=slot.count if device.type == "cpu" else slot.sharers(device, gpus),
        )
    is_shared = not settings.cpu_threads and chosen == [torch.device("cpu")]
    at_once = min(threads, MAX_AT_ONCE) if is_shared else 1
    engines = []
    for device in chosen:
        memory, background = managers[device], None
        if settings.long_work_ms > 0:
            background = Engine(device, threads, memory, is_background=True, at_once=at_once)
        engines.append(
            Engine(device, threads, memory, None, background, cores=cores, at_once=at_once)
        )
    return engines
