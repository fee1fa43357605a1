"""A memory manager with torch's allocator in miniature: requests, time and other processes."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.policy import Thresholds
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
        self.retries = 0

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
            retries=self.retries,
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

    def _new_block(self, size: int) -> Block:
        if size > self.headroom().free:
            self.retries += 1
            self._flush()
        if size > self.headroom().free:
            raise torch.OutOfMemoryError(f"{size} bytes wanted, {self.headroom().free} free")
        self.blocks.append(Block(size))
        return self.blocks[-1]

    def _flush(self) -> None:
        self.blocks = [block for block in self.blocks if block.used]


GIB = 1 << 30
POLICY_REASONS = {"hard", "idle"}


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Tensor:
    """Holds a block until it is collected."""

    def __init__(self, allocator: FakeAllocator, size: int) -> None:
        weakref.finalize(self, allocator.free, allocator.allocate(size))


@dataclass(frozen=True)
class Request:
    """Clouds, each of which needs one tensor."""

    name: str
    sizes: tuple[int, ...]


@dataclass
class Simulation:
    """A GPU, a manager of it, and all that was reported."""

    total: int = 16 * GIB
    others: int = 0
    thresholds: Thresholds = field(default_factory=Thresholds)
    bounded: bool = False

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.allocator = FakeAllocator(self.total, self.others)
        self.gate = Gate()
        self.events: list[dict[str, Any]] = []
        self.manager = self.new_manager()
        self.tensors: weakref.WeakSet[Tensor] = weakref.WeakSet()
        self.meanwhile: Callable[[], object] = lambda: None
        """Called in the middle of each batch."""

    def new_manager(self) -> Manager:
        return Manager(
            self.allocator,
            self.thresholds,
            self.gate,
            bounded=self.bounded,
            report=self._report,
            clock=self.clock,
        )

    def run(self, *requests: Request) -> list[Any]:
        return self.manager.run(RequestBatch(requests), self.forward)

    def forward(self, batch: "RequestBatch") -> list[str]:
        with self.allocator.forward():
            tensors = []
            for request in batch.requests:
                for size in request.sizes:
                    tensors.append(Tensor(self.allocator, size))
                    self.tensors.add(tensors[-1])
            self.meanwhile()
            return [request.name for request in batch.requests]

    def wait(self, seconds: float, waiting: int = 0, step_s: float = 0.25) -> None:
        """Time passes, and the manager is called as the monitor does."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + step_s)
            self.manager.poll(waiting)

    def trims(self, *reasons: str) -> list[dict[str, Any]]:
        wanted = reasons or POLICY_REASONS
        return [e for e in self.events if e["event"] == "trim" and e["reason"] in wanted]

    def _report(self, event: str, **fields: Any) -> None:
        fields |= {"event": event, "at": self.clock.now, "left": self.allocator.stats()}
        self.events.append(fields)


@dataclass(frozen=True)
class RequestBatch:
    """Requests that a manager may cut."""

    requests: Sequence[Request]

    @property
    def predicted_bytes(self) -> int:
        return sum(sum(request.sizes) for request in self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, requests: slice) -> "RequestBatch":
        return RequestBatch(self.requests[requests])

    def halve(self) -> "tuple[RequestBatch, RequestBatch] | None":
        (request,) = self.requests
        middle = len(request.sizes) // 2
        if not middle:
            return None
        first = Request(f"{request.name}.0", request.sizes[:middle])
        second = Request(f"{request.name}.1", request.sizes[middle:])
        return RequestBatch([first]), RequestBatch([second])

    def join(self, first: str, second: str) -> str:
        return f"{first}+{second}"


def one(name: str, mib: float) -> Request:
    """A request of a single cloud."""
    return Request(name, (int(mib * MIB),))
