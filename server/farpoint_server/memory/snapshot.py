"""Statistics of one device's memory at one moment, for GetMemory, metrics and the log."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.prediction import Correction


class Reason(str, Enum):
    """Why a trim was made; the first four are the levels of the policy."""

    HARD = "hard"
    SOFT = "soft"
    FRAGMENTATION = "fragmentation"
    IDLE = "idle"
    ROOM = "room"
    """A batch was about to begin that neither the cache nor the rest of the device could hold."""
    OUT_OF_MEMORY = "out_of_memory"
    REQUEST = "request"
    """Somebody called TrimMemory."""


class Counter:
    """A count that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    @property
    def value(self) -> int:
        """So far."""
        return self._value

    def add(self, number: int) -> None:
        """Counts `number` more; none is lost."""
        with self._lock:
            self._value += number


@dataclass(frozen=True)
class Trims:
    """All trims of one reason."""

    count: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    returned_bytes: int = 0

    def add(self, seconds: float, returned_bytes: int) -> "Trims":
        """With one more trim."""
        return Trims(
            self.count + 1,
            self.seconds + seconds,
            max(self.longest_s, seconds),
            self.returned_bytes + returned_bytes,
        )


@dataclass(frozen=True)
class MemorySnapshot:
    """One device at one moment. Counters begin at 0 with the process."""

    device: str
    taken: float = 0.0
    """Seconds of time.monotonic."""
    stats: Stats = field(default_factory=Stats)
    room: Room = field(default_factory=lambda: Room(0, 0))
    limit: int | None = None
    """Most bytes that this process may hold; None is no limit."""
    demand: int = 0
    correction: Correction = field(default_factory=Correction)
    trims: Mapping[Reason, Trims] = field(default_factory=dict)
    oom_count: int = 0
    """Times that memory ran out in a batch and it was tried again."""
    refused: int = 0
    """Requests that were refused because their bytes did not fit."""
    resident: int = 0
    """RSS of the process, in bytes."""
    healthy: bool = True
