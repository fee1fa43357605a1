"""What an operator can choose, and the manager of a device that follows from it."""

from dataclasses import dataclass, field, replace

import torch

from farpoint_server.memory import environment
from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.cuda import CudaAllocator
from farpoint_server.memory.host import Heap
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.policy import Limits
from farpoint_server.memory.trimmer import Gate, Report

MIB = 1 << 20
# A trim of the heap costs milliseconds and the next request pays page faults alone. A trim of a
# card waits for it and costs a driver call per segment, and the next request pays as many.
CPU_IDLE_S, CUDA_IDLE_S = 2.0, 30.0
CPU_INTERVAL_S, CUDA_INTERVAL_S = 2.0, 10.0
CPU_MIN_TRIM_BYTES, CUDA_MIN_TRIM_BYTES = 8 * MIB, 64 * MIB


@dataclass(frozen=True)
class Options:
    """Of one server; an `idle_s`, `interval_s` or `min_trim_bytes` of 0 goes by the device."""

    limits: Limits = field(default_factory=lambda: Limits(idle_s=0, interval_s=0, min_trim_bytes=0))
    limit_bytes: int = 0
    reserve_bytes: int = 512 * MIB
    enabled: bool = True


def manager_of(
    device: torch.device,
    options: Options,
    gate: Gate,
    allocator_settings: str = "",
    report: Report = lambda *_, **__: None,
) -> Manager:
    """A manager of `device`.

    Args:
        device: A CPU or a card.
        options: The operator's.
        gate: One for all managers of a process: a trim reaches every cache of it.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.
        report: Called with an event and its fields.
    """
    is_cuda = device.type == "cuda"
    return Manager(
        _allocator(device, options, allocator_settings),
        limits_of(device, options.limits),
        gate,
        limit=options.limit_bytes,
        reserve=options.reserve_bytes if is_cuda else 0,
        # Without a limit a CPU refuses nothing: the system may have swap, and overcommits.
        bounded=is_cuda or options.limit_bytes > 0,
        enabled=options.enabled,
        report=report,
    )


def limits_of(device: torch.device, limits: Limits) -> Limits:
    """With the device's own values where there is 0."""
    on_card = device.type == "cuda"
    return replace(
        limits,
        idle_s=limits.idle_s or (CUDA_IDLE_S if on_card else CPU_IDLE_S),
        interval_s=limits.interval_s or (CUDA_INTERVAL_S if on_card else CPU_INTERVAL_S),
        min_trim_bytes=limits.min_trim_bytes
        or (CUDA_MIN_TRIM_BYTES if on_card else CPU_MIN_TRIM_BYTES),
    )


def _allocator(device: torch.device, options: Options, settings: str) -> Allocator:
    if device.type != "cuda":
        return Heap()
    total = torch.cuda.get_device_properties(device).total_memory
    fraction = min(1.0, options.limit_bytes / total) if options.limit_bytes else 1.0
    expandable = environment.is_expandable(environment.parse(settings))
    return CudaAllocator(device, fraction, expandable=expandable, heap=Heap())
