"""Requests, time and other processes for a memory manager with the fake allocator."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.memory.fake_allocator import MIB, FakeAllocator

from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.policy import Thresholds

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
    enabled: bool = True

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
            enabled=self.enabled,
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
