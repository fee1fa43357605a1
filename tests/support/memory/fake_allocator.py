"""torch's caching allocator in miniature, on a GPU that exists only in numbers.

Sizes are rounded to 512 bytes; blocks of at most 1 MiB are cut from segments of 2 MiB, those below
10 MiB from segments of 20 MiB, larger ones get segments of their own; the best fitting free block
is split and merged again with adjacent free blocks; a failed allocation flushes the cache and
tries once more. Only whole free segments go back to the device.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from farpoint_server.memory.snapshot import Headroom, Stats

MIB = 1 << 20
ROUNDING = 512
SMALL, SMALL_SEGMENT = MIB, 2 * MIB
LARGE, LARGE_SEGMENT = 10 * MIB, 20 * MIB
LARGE_ROUNDING = 2 * MIB


@dataclass(eq=False)
class Block:
    """A piece of a segment."""

    segment: "Segment"
    size: int
    used: bool = False


@dataclass(eq=False)
class Segment:
    """Memory that was taken from the device in one piece."""

    size: int
    small: bool
    blocks: list[Block] = field(default_factory=list)

    @property
    def is_free(self) -> bool:
        return not any(block.used for block in self.blocks)


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
        self.segments: list[Segment] = []
        self.in_flight = 0
        self.in_capture = False
        self.trims = 0
        self.pinned_cached = 0
        self.fail_at: set[int] = set()
        """Numbers of the allocations that fail, counted from 1."""
        self.allocations = 0
        self.retries = self.ooms = self.device_frees = 0
        self._allocated = 0

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
        block = self._best_fit(size) or self._new_segment(size)
        self._split(block, size)
        block.used = True
        self._allocated += block.size
        return block

    def free(self, block: Block) -> None:
        """Gives a block back to the cache, merged with adjacent free blocks."""
        if not block.used:
            raise RuntimeError("freed twice")
        block.used = False
        self._allocated -= block.size
        blocks = block.segment.blocks
        place = blocks.index(block)
        for other in (place + 1, place - 1):
            if 0 <= other < len(blocks) and not blocks[other].used:
                block.size += blocks[other].size
                del blocks[other]
                place = blocks.index(block)

    def stats(self) -> Stats:
        reserved = sum(segment.size for segment in self.segments)
        releasable = sum(segment.size for segment in self.segments if segment.is_free)
        return Stats(
            allocated=self._allocated,
            reserved=reserved,
            releasable=releasable,
            split=reserved - releasable - self._allocated,
            host_reserved=self.pinned_cached,
            host_releasable=self.pinned_cached,
            segments=len(self.segments),
            retries=self.retries,
            ooms=self.ooms,
            device_frees=self.device_frees,
        )

    def headroom(self) -> Headroom:
        reserved = sum(segment.size for segment in self.segments)
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

    def _best_fit(self, size: int) -> Block | None:
        pool = (segment for segment in self.segments if segment.small == (size <= SMALL))
        free = [b for segment in pool for b in segment.blocks if not b.used and b.size >= size]
        return min(free, key=lambda block: block.size, default=None)

    def _new_segment(self, size: int) -> Block:
        wanted = _segment_size(size)
        if wanted > self.headroom().free:
            self.retries += 1
            self._flush()
        if wanted > self.headroom().free:
            self.ooms += 1
            raise torch.OutOfMemoryError(f"{wanted} bytes wanted, {self.headroom().free} free")
        segment = Segment(wanted, small=size <= SMALL)
        segment.blocks.append(Block(segment, wanted))
        self.segments.append(segment)
        return segment.blocks[0]

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest >= (ROUNDING if block.segment.small else SMALL + 1):
            blocks = block.segment.blocks
            blocks.insert(blocks.index(block) + 1, Block(block.segment, rest))
            block.size = size

    def _flush(self) -> None:
        kept = [segment for segment in self.segments if not segment.is_free]
        self.device_frees += len(self.segments) - len(kept)
        self.segments = kept


def _segment_size(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE:
        return LARGE_SEGMENT
    return -(-size // LARGE_ROUNDING) * LARGE_ROUNDING
