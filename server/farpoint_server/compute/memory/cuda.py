"""torch's CUDA caching allocator of one device, and its cache of pinned host memory."""

from collections.abc import Mapping
from typing import Any

import torch

from farpoint_server.compute.memory.host import Heap
from farpoint_server.compute.memory.snapshot import Headroom, Stats


class CudaAllocator:
    """The cache of one GPU; the process's heap is trimmed along with the pinned memory.

    A trim reaches the caches of every GPU of the process (torch has no narrower call), so
    managers of several GPUs must share a gate.

    Args:
        fraction: Maximum share of the GPU's memory for this process, 0 to 1, without the CUDA
            context and libraries.
    """

    def __init__(self, device: torch.device, fraction: float, heap: Heap) -> None:
        self.name = str(device)
        self._device = device
        self._heap = heap
        torch.cuda.set_per_process_memory_fraction(fraction, device)

    def stats(self, *, host: bool = True) -> Stats:
        return read_stats(
            torch.cuda.memory_stats_as_nested_dict(self._device),
            torch.cuda.host_memory_stats_as_nested_dict() if host else {},
            heap_releasable=self._heap.stats().releasable if host else 0,
        )

    def headroom(self) -> Headroom:
        free, total = torch.cuda.mem_get_info(self._device)
        return Headroom(free, total)

    def trim(self) -> None:
        with torch.cuda.device(self._device):
            torch.cuda.empty_cache()

    def trim_host(self) -> None:
        # Buffers that were just freed can be released once their streams have passed that point.
        torch.cuda.synchronize(self._device)
        _empty_host_cache()
        self._heap.trim()

    def capturing(self) -> bool:
        with torch.cuda.device(self._device):
            return bool(torch.cuda.is_current_stream_capturing())


def read_stats(
    device: Mapping[str, Any], host: Mapping[str, Any], heap_releasable: int = 0
) -> Stats:
    """Stats of torch's nested counters; a key that a version does not have counts as 0.

    Flat ones take seven times as long, and every batch reads them.

    Segments are released whole, so blocks that share one with a live block stay. torch counts no
    block of an expandable segment as split; the policy records what each trim left of them.
    """

    def current(name: str) -> int:
        return int(device.get(name, {}).get("all", {}).get("current", 0))

    def pinned(name: str) -> int:
        return int(host.get(name, {}).get("current", 0))

    allocated, reserved = current("allocated_bytes"), current("reserved_bytes")
    split = current("inactive_split_bytes")
    host_reserved = pinned("allocated_bytes")
    # torch 2.11 never counts a pinned block as freed, so after a trim more is active than exists.
    host_idle = max(0, host_reserved - pinned("active_bytes"))
    return Stats(
        allocated=allocated,
        reserved=reserved,
        # Blocks that wait for another stream's event are active, though no longer allocated.
        releasable=max(0, reserved - current("active_bytes") - split),
        split=split,
        host_reserved=host_reserved,
        host_releasable=host_idle + heap_releasable,
        retries=device.get("num_alloc_retries", 0),
    )


def _empty_host_cache() -> None:
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()
    else:  # torch 2.11 and 2.12
        torch._C._host_emptyCache()
