"""The heap of this process, as the memory of a CPU engine."""

from farpoint_server.memory import detect, resident, system
from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.malloc import Malloc

# A peak is believed when at most this share of it can be reused memory or other threads' doing.
DOUBT = 0.1


class Heap:
    """malloc's heap. malloc keeps what is freed; a trim gives its whole pages back.

    malloc says how much of its heap is free, but not how much of that is resident: with glibc,
    pages that a trim gave back still count as free. So what is releasable is measured against the
    last trim: anonymous memory beyond live blocks and beyond what was left then.

    Args:
        malloc: That of this process by default.
    """

    name = "cpu"

    def __init__(self, malloc: Malloc | None = None) -> None:
        self._malloc = malloc or detect.malloc()
        self._rest = 0
        self._before = Stats()
        self._resident = 0
        self._watching = False
        self._settle(used=0)

    def stats(self) -> Stats:
        use = self._malloc.use()
        beyond = resident.anonymous_bytes() - use.used - self._rest
        releasable = min(use.free, max(0, beyond))
        return Stats(allocated=use.used, reserved=use.used + releasable, releasable=releasable)

    def room(self) -> Room:
        return system.room()

    def trim(self) -> None:
        self._malloc.trim()
        # Who wanted to free something meanwhile had to wait, and does it as soon as that is over:
        # it must not be taken for memory that a trim cannot reach.
        used = self._malloc.use().used
        self._malloc.trim()
        self._settle(used)

    def trim_host(self) -> None:
        """Nothing: on a CPU the heap is the device."""

    def capturing(self) -> bool:
        return False

    def begin_peak(self) -> None:
        self._before = self.stats()
        self._resident = resident.resident_bytes()
        self._watching = self._malloc.tells_live and resident.reset_peak()

    def peak(self) -> int | None:
        grown = resident.peak_bytes() - self._resident
        others = abs(self.stats().allocated - self._before.allocated)
        if not self._watching or self._before.releasable + others > DOUBT * grown:
            return None
        return grown

    def snapshot(self) -> bytes | None:
        return None

    def _settle(self, used: int) -> None:
        """What is resident now and neither live nor releasable: stacks, other allocators.

        What was live a moment ago (`used`) and no more is releasable.
        """
        left = resident.anonymous_bytes()
        self._rest = left - max(used, self._malloc.use().used)
