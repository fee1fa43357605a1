"""Makes the memory manager of a device from the options of a server."""

from dataclasses import replace

import torch

from farpoint_server.memory import environment
from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.cuda import CudaAllocator
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.host import Heap
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.options import Options
from farpoint_server.memory.policy import CPU_THRESHOLDS, CUDA_THRESHOLDS, Thresholds
from farpoint_server.memory.trimmer import Report


def manager_of(
    device: torch.device,
    options: Options,
    gate: Gate,
    allocator_settings: str = "",
    report: Report = lambda *_, **__: None,
    *,
    sharers: int = 1,
) -> Manager:
    """A manager of `device`.

    Args:
        device: A CPU or a GPU.
        options: The operator's.
        gate: One for all managers of a process: a trim reaches every cache of it.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.
        report: Called with an event and its fields.
        sharers: Processes that share the device, and the limit; of a GPU its memory where there is
            no limit.
    """
    is_cuda = device.type == "cuda"
    options = replace(options, limit_bytes=_share(device, options.limit_bytes, sharers))
    return Manager(
        _allocator(device, options, allocator_settings),
        thresholds_of(device, options.idle_s),
        gate,
        limit=options.limit_bytes,
        reserve=options.reserve_bytes if is_cuda else 0,
        # Without a limit a CPU refuses nothing: the system may have swap, and overcommits.
        bounded=is_cuda or options.limit_bytes is not None,
        enabled=options.enabled,
        report=report,
    )


def thresholds_of(device: torch.device, idle_s: float | None) -> Thresholds:
    """The policy's constants for a device, with the operator's `idle_s` where there is one."""
    thresholds = CUDA_THRESHOLDS if device.type == "cuda" else CPU_THRESHOLDS
    return thresholds if idle_s is None else replace(thresholds, idle_s=idle_s)


def _share(device: torch.device, limit: int | None, sharers: int) -> int | None:
    """The bytes of a device that are one process's."""
    if sharers > 1 and limit is None and device.type == "cuda":
        limit = torch.cuda.get_device_properties(device).total_memory
    return limit if limit is None else limit // sharers


def _allocator(device: torch.device, options: Options, settings: str) -> Allocator:
    if device.type != "cuda":
        return Heap()
    total = torch.cuda.get_device_properties(device).total_memory
    fraction = 1.0 if options.limit_bytes is None else min(1.0, options.limit_bytes / total)
    expandable = environment.is_expandable(environment.parse(settings))
    return CudaAllocator(device, fraction, expandable=expandable, heap=Heap())
