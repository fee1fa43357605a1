"""Memory of a device at one moment, and the interface of its allocator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True)
class Stats:
    """Bytes of an allocator at one moment, and its counters since the process started."""

    allocated: int = 0
    """In live tensors; on a CPU, in live blocks of malloc."""
    reserved: int = 0
    """Taken from the device, or resident in RAM, for live and for cached blocks."""
    releasable: int = 0
    """Bytes that a trim would give back to the device now."""
    split: int = 0
    """Cached in segments with live blocks, which a trim cannot release."""
    host_reserved: int = 0
    """Pinned host memory, live and cached; 0 on a CPU."""
    host_releasable: int = 0
    """Bytes that a trim of the host caches would give back."""
    retries: int = 0
    """Times the allocator itself flushed its cache, in the middle of a batch."""

    @property
    def idle(self) -> int:
        """Cached bytes, releasable or not."""
        return max(0, self.reserved - self.allocated)

    @property
    def fragmentation(self) -> float:
        """The share of the reserved bytes that is cached and cannot be released."""
        return self.split / self.reserved if self.reserved else 0.0


@dataclass(frozen=True)
class Headroom:
    """Bytes of a whole device, over all of its users."""

    free: int
    total: int


class Allocator(Protocol):
    """Allocator of one device; called only on the thread that runs the batches."""

    name: str
    """As torch names the device: "cpu", "cuda:0"."""

    def stats(self, *, host: bool = True) -> Stats:
        """The counters now; those of host memory, which take longer, if `host`."""

    def headroom(self) -> Headroom:
        """Free bytes over all processes; a driver call, so not for every request."""

    def trim(self) -> None:
        """Returns every releasable byte of the device; synchronizes with it."""

    def trim_host(self) -> None:
        """Returns cached host memory."""

    def capturing(self) -> bool:
        """Whether a CUDA graph is being captured, when a trim would be illegal."""


class Reason(str, Enum):
    """Reason of a trim; the policy decides the first two."""

    HARD = "hard"
    IDLE = "idle"
    ROOM = "room"
    """A batch was about to begin that neither the cache nor the free memory could hold."""
    OUT_OF_MEMORY = "out_of_memory"
    REQUEST = "request"
    """A client called TrimMemory."""


@dataclass(frozen=True)
class Trims:
    """All trims of one reason."""

    count: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    returned_bytes: int = 0

    def add(self, seconds: float, returned_bytes: int) -> "Trims":
        """The total with one more trim."""
        return Trims(
            self.count + 1,
            self.seconds + seconds,
            max(self.longest_s, seconds),
            self.returned_bytes + returned_bytes,
        )


@dataclass(frozen=True)
class MemorySnapshot:
    """One device at one moment; counters start at 0 with the process."""

    device: str
    taken: float = 0.0
    """Seconds of time.monotonic."""
    stats: Stats = field(default_factory=Stats)
    headroom: Headroom = field(default_factory=lambda: Headroom(0, 0))
    limit: int | None = None
    """Most bytes that this process may hold; None is no limit."""
    trims: Mapping[Reason, Trims] = field(default_factory=dict)
    oom_count: int = 0
    """Times that memory ran out in a batch and it was tried again."""
    refused: int = 0
    """Requests that were refused because their bytes did not fit."""
    resident: int = 0
    """RSS of the process, in bytes."""
    healthy: bool = True
