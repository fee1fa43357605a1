"""torch's caching allocator in miniature, on a GPU that exists only in numbers.

Each block is a segment of a multiple of 2 MiB; a free one of the same size is used again. A failed
allocation flushes the cache and tries once more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from farpoint_server.compute.memory.snapshot import Headroom, Stats

MIB = 1 << 20
ROUNDING = 2 * MIB


@dataclass(eq=False)
class Block:
    """Memory that was taken from the device in one piece."""

    size: int
    used: bool = True


class FakeAllocator:
    """An `Allocator` that remembers everything and raises where a real GPU would be harmed.

    Args:
        total: Bytes of the GPU.
        others: Bytes that other processes hold; may be changed at any time.
    """

    name = "fake:0"

    def __init__(self, total: int, others: int = 0) -> None:
        self.total = total
        self.others = others
        self.blocks: list[Block] = []
        self.in_flight = 0
        self.in_capture = False
        self.trims = 0
        self.pinned_cached = 0
        self.fail_at: set[int] = set()
        """Numbers of the allocations that fail, counted from 1."""
        self.allocations = 0
        self.retries = self.ooms = self.device_frees = 0

    @contextmanager
    def forward(self) -> Iterator[None]:
        """A batch, during which a trim is an error."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def allocate(self, size: int) -> Block:
        """Raises torch.OutOfMemoryError as the GPU would, or where `fail_at` says so."""
        self.allocations += 1
        if self.allocations in self.fail_at:
            self.ooms += 1
            raise torch.OutOfMemoryError(f"injected at allocation {self.allocations}")
        size = -(-size // ROUNDING) * ROUNDING
        free = (block for block in self.blocks if not block.used and block.size == size)
        block = next(free, None) or self._new_block(size)
        block.used = True
        return block

    def free(self, block: Block) -> None:
        """Gives a block back to the cache."""
        if not block.used:
            raise RuntimeError("freed twice")
        block.used = False

    def stats(self, *, host: bool = True) -> Stats:  # noqa: ARG002
        allocated = sum(block.size for block in self.blocks if block.used)
        reserved = sum(block.size for block in self.blocks)
        return Stats(
            allocated=allocated,
            reserved=reserved,
            releasable=reserved - allocated,
            host_reserved=self.pinned_cached,
            host_releasable=self.pinned_cached,
            segments=len(self.blocks),
            retries=self.retries,
            ooms=self.ooms,
            device_frees=self.device_frees,
        )

    def headroom(self) -> Headroom:
        reserved = sum(block.size for block in self.blocks)
        return Headroom(max(0, self.total - self.others - reserved), self.total)

    def trim(self) -> None:
        if self.in_flight:
            raise RuntimeError(f"trimmed with {self.in_flight} batches in flight")
        if self.in_capture:
            raise RuntimeError("trimmed while a graph is being captured")
        self.trims += 1
        self._flush()

    def trim_host(self) -> None:
        if self.in_flight:
            raise RuntimeError(f"host caches trimmed with {self.in_flight} batches in flight")
        self.pinned_cached = 0

    def capturing(self) -> bool:
        return self.in_capture

    def snapshot(self) -> bytes | None:
        return None

    def _new_block(self, size: int) -> Block:
        if size > self.headroom().free:
            self.retries += 1
            self._flush()
        if size > self.headroom().free:
            self.ooms += 1
            raise torch.OutOfMemoryError(f"{size} bytes wanted, {self.headroom().free} free")
        self.blocks.append(Block(size))
        return self.blocks[-1]

    def _flush(self) -> None:
        used = [block for block in self.blocks if block.used]
        self.device_frees += len(self.blocks) - len(used)
        self.blocks = used
