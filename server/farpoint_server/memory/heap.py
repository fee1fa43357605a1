"""The heap of this process, as the memory of a CPU engine."""

from farpoint_server.memory import glibc, resident, system
from farpoint_server.memory.allocator import Room, Stats

# A peak is believed when at most this share of it can be reused memory or other threads' doing.
DOUBT = 0.1


class Heap:
    """glibc's heap. malloc keeps what is freed; a trim gives its whole pages back.

    glibc says how much of its heap is free, but not how much of that is resident: pages that a
    trim gave back still count as free. So what is releasable is measured against the last trim:
    anonymous memory beyond live blocks and beyond what was left then.
    """

    name = "cpu"

    def __init__(self) -> None:
        self._rest = 0
        self._before = Stats()
        self._resident = 0
        self._watching = False
        self._settle()

    def stats(self) -> Stats:
        if not glibc.is_supported():
            return Stats()
        use = glibc.heap_use()
        beyond = resident.anonymous_bytes() - use.used - self._rest
        releasable = min(use.free, max(0, beyond))
        return Stats(allocated=use.used, reserved=use.used + releasable, releasable=releasable)

    def room(self) -> Room:
        return system.room()

    def trim(self) -> None:
        glibc.malloc_trim()
        self._settle()

    def trim_host(self) -> None:
        """Nothing: on a CPU the heap is the device."""

    def capturing(self) -> bool:
        return False

    def begin_peak(self) -> None:
        self._before = self.stats()
        self._resident = resident.resident_bytes()
        self._watching = resident.reset_peak()

    def peak(self) -> int | None:
        grown = resident.peak_bytes() - self._resident
        others = abs(self.stats().allocated - self._before.allocated)
        if not self._watching or self._before.releasable + others > DOUBT * grown:
            return None
        return grown

    def snapshot(self) -> bytes | None:
        return None

    def _settle(self) -> None:
        """What is resident now and neither live nor releasable: stacks, other allocators."""
        self._rest = resident.anonymous_bytes() - glibc.heap_use().used
