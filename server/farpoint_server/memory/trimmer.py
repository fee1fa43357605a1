"""Trims, each under the gate and counted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from farpoint_server.memory.allocator import Allocator, Stats
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.snapshot import Reason, Trims

Report = Callable[..., object]


@dataclass(frozen=True)
class Trim:
    """One trim that was made."""

    reason: Reason
    seconds: float
    returned_bytes: int
    left: Stats


class Trimmer:
    """The only caller of `Allocator.trim`.

    Args:
        allocator: What is trimmed.
        gate: Shared with all whose forwards a trim would meet.
        report: Called with an event and its fields for each trim.
    """

    def __init__(self, allocator: Allocator, gate: Gate, report: Report) -> None:
        self._allocator = allocator
        self._gate = gate
        self._report = report
        self.trims: dict[Reason, Trims] = {}
        self.before_host_trim: list[Callable[[], None]] = []
        """What hands host memory to the caches that are about to be trimmed."""

    def attempt(self, reason: Reason, *, host: bool) -> Trim | None:
        """Trims if no forward is inside the gate; else leaves it and returns None."""
        with self._gate.trying() as entered:
            return self._trim(reason, host=host) if entered else None

    def insist(self, reason: Reason, timeout_s: float) -> Trim | None:
        """Trims device and host as soon as the forwards inside are done; None if they are not."""
        with self._gate.insisting(timeout_s) as entered:
            return self._trim(reason, host=True) if entered else None

    def _trim(self, reason: Reason, *, host: bool) -> Trim | None:
        if self._allocator.capturing():
            return None
        before = self._allocator.stats()
        begun = time.perf_counter()
        self._allocator.trim()
        if host:
            for give_back in self.before_host_trim:
                give_back()
            self._allocator.trim_host()
        seconds = time.perf_counter() - begun
        left = self._allocator.stats()
        trim = Trim(reason, seconds, _returned(before, left, host=host), left)
        counted = self.trims.get(reason, Trims()).add(seconds, trim.returned_bytes)
        # Replaced rather than changed: other threads read it.
        self.trims = {**self.trims, reason: counted}
        self._report(
            "trim",
            device=self._allocator.name,
            reason=reason.value,
            ms=round(seconds * 1e3, 3),
            returned_bytes=trim.returned_bytes,
            segments=before.segments - left.segments,
        )
        return trim


def _returned(before: Stats, left: Stats, *, host: bool) -> int:
    returned = before.reserved - left.reserved
    if host:
        returned += before.host_releasable - left.host_releasable
    return max(0, returned)
