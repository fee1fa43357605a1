"""Makes the engines, schedulers and memory managers of the settings."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import structlog
import torch

from farpoint_server.compute import devices
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.engine import Engine
from farpoint_server.compute.lane import BatchMetrics, Watchdog
from farpoint_server.compute.memory import environment
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager, manager_of
from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.compute.remote.server import Handler
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.config.settings import Settings
from farpoint_server.kinds import wire
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.transport.grpc.health import Health

Metrics: TypeAlias = Callable[[str], BatchMetrics]
# Batches at a time on a CPU; each takes memory.
MAX_AT_ONCE = 8
# Predicted, on a CPU. A small request waits for one batch and is in the next, while each costs a
# quarter of a millisecond: next to 1,000 calls of 16,666 points another's p99 was 54 ms, and 130
# with batches of 30.
BATCH_NS = 10_000_000
# Predicted. Longer requests run at a lower priority, so that short ones overtake them.
LONG_NS = 30_000_000
POINT_BYTES = 12


async def lost_before_signal(compute: Compute, signals: "asyncio.Queue[int]") -> bool:
    """Waits for a signal, or until no device works; whether that came first, which is logged."""
    signalled = asyncio.ensure_future(signals.get())
    lost = asyncio.ensure_future(compute.lost())
    await asyncio.wait((signalled, lost), return_when=asyncio.FIRST_COMPLETED)
    if signalled.done():
        lost.cancel()
        return False
    signalled.cancel()
    structlog.get_logger("farpoint").error("device failed", exit_status=3)
    return True


def make_compute(settings: Settings, health: Health, metrics: Metrics) -> Compute:
    """The owner of the devices; raises StartError if the settings do not fit this machine."""
    return Compute(
        _make_schedulers(settings, health, metrics, devices.available_cores()),
        lambda name, healthy: health.report(name, healthy=healthy),
        structlog.get_logger("farpoint.memory").error,
        os.environ.get(environment.NAME, ""),
    )


def make_remote_compute(
    settings: Settings,
    health: Health,
    metrics: Metrics,
    slot: ProcessSlot,
    handlers: Mapping[str, Handler],
) -> RemoteCompute:
    """The compute of a front end, with its part of the cores for what takes them less than a hop.

    Its own work is short and admitted, so the limit of memory is the engine's.
    """
    own = settings.model_copy(update={"device": ("cpu",), "memory_limit_mib": None})
    cores = max(1, devices.available_cores() // slot.count)
    # Twice what is admitted: points as float32, and what else is in messages.
    admitted = settings.max_bytes_in_flight + POINT_BYTES * settings.max_points_in_flight
    return RemoteCompute(
        _make_schedulers(own, health, metrics, cores, has_background=False),
        lambda name, healthy: health.report(name, healthy=healthy),
        structlog.get_logger("farpoint.memory").error,
        path=slot.engine,
        index=slot.index,
        region_bytes=2 * admitted,
        kinds=wire,
        handlers=handlers,
    )


def _make_schedulers(
    settings: Settings,
    health: Health,
    metrics: Metrics,
    cores: int,
    *,
    has_background: bool = True,
) -> list[DeviceScheduler]:
    engines = _make_engines(settings, cores, has_background=has_background)
    hung: set[int] = set()

    def report(index: int, healthy: bool) -> None:
        (hung.discard if healthy else hung.add)(index)
        health.report("engines", healthy=len(hung) < len(engines))

    return [
        DeviceScheduler(
            engine,
            settings.batch_points,
            Watchdog(settings.engine_timeout_s, partial(report, index)),
            long_ns=LONG_NS,
            batch_ns=BATCH_NS if engine.device_type == "cpu" else None,
            metrics=metrics(str(engine.device)),
        )
        for index, engine in enumerate(engines)
    ]


def _make_engines(settings: Settings, cores: int, *, has_background: bool) -> list[Engine]:
    chosen = devices.resolve_all(settings.device)
    threads = settings.cpu_threads or cores
    # Of this thread: small work, which runs on the event loop, has no OpenMP team of its own.
    torch.set_num_threads(1)
    if any(device.type == "cuda" for device in chosen):
        # By default cuDNN multiplies float32 in convolutions as TF32, with 10 bits of mantissa.
        torch.backends.cudnn.allow_tf32 = False
    gate = Gate()
    managers = {device: _make_manager(settings, device, gate) for device in chosen}
    at_once = 1 if settings.cpu_threads else min(threads, MAX_AT_ONCE)

    def make(device: torch.device, background: Engine | None = None) -> Engine:
        is_background, memory = has_background and background is None, managers[device]
        if device.type == "cuda":
            return CudaEngine(device, threads, memory, background, is_background=is_background)
        return CpuEngine(
            threads,
            memory,
            background,
            is_background=is_background,
            cores=cores,
            at_once=at_once,
        )

    return [make(device, make(device) if has_background else None) for device in chosen]


def _make_manager(settings: Settings, device: torch.device, gate: Gate) -> Manager:
    return manager_of(
        device,
        gate,
        idle_s=settings.memory_idle_s,
        limit_mib=settings.memory_limit_mib,
        report=structlog.get_logger("farpoint.memory").info,
    )
