"""The trims of a device, while no batch runs on it, and snapshots of its memory."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from farpoint_server.memory.gate import Gate
from farpoint_server.memory.host import resident_bytes
from farpoint_server.memory.oom import Budget, DeviceLost, is_sticky
from farpoint_server.memory.policy import OomTracker, Thresholds, TrimPolicy
from farpoint_server.memory.snapshot import Allocator, MemorySnapshot, Reason, Stats, Trims

# Batches that are in flight get so long to end before a trim that cannot wait for a quiet moment.
DRAIN_S = 10.0

Report = Callable[..., object]


@dataclass(frozen=True)
class TrimRecord:
    """One trim."""

    reason: Reason
    seconds: float
    returned_bytes: int


class Trimmer:
    """The only caller of `Allocator.trim`.

    `snapshot`, `is_lost` and `failed` are for any thread, the trims for the engine's.

    Args:
        allocator: The device's.
        thresholds: The policy's thresholds.
        gate: Shared by the managers that one trim would reach.
        limit: Most bytes that this process may hold; None: no limit of its own.
        reserve: Bytes of the device that predictions leave free.
        bounded: Whether work is refused when its predicted bytes do not fit.
        enabled: Whether the policy trims; recovery from out of memory and requests always do.
        report: Called with an event and its fields.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        allocator: Allocator,
        thresholds: Thresholds,
        gate: Gate,
        *,
        limit: int | None = None,
        reserve: int = 0,
        bounded: bool = False,
        enabled: bool = True,
        report: Report = lambda *_, **__: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocator = allocator
        self._policy = TrimPolicy(thresholds)
        self._gate = gate
        self._budget = Budget(allocator, limit, reserve, clock)
        self.bounded = bounded
        """Whether work is refused when its predicted bytes do not fit."""
        self._enabled = enabled
        self._report = report
        self._clock = clock
        self._ooms = OomTracker()
        self._counting, self._refused = threading.Lock(), 0
        self._last_work = clock()
        self._trims: dict[Reason, Trims] = {}
        self._before_host_trim: list[Callable[[], None]] = []
        self.is_lost = False
        """Whether the device no longer works in this process."""
        self._snapshot = self._look()

    @property
    def snapshot(self) -> MemorySnapshot:
        """The latest snapshot of memory."""
        # A look may have begun before another thread found the device lost.
        return replace(self._snapshot, healthy=False) if self.is_lost else self._snapshot

    def before_host_trim(self, give_back: Callable[[], None]) -> None:
        """Registers a function to call before each trim of host memory, with nothing in flight."""
        self._before_host_trim.append(give_back)

    def failed(self, error: Exception) -> Exception:
        """Translates a batch's error: DeviceLost if the device no longer works."""
        if not is_sticky(error):
            return error
        self.is_lost = True
        return DeviceLost(str(error).splitlines()[0])

    def poll(self, waiting: int) -> TrimRecord | None:
        """Reads memory, and trims if the policy requires it and nothing is in flight.

        Args:
            waiting: Requests in the queue.
        """
        if self.is_lost:
            return None
        now, stats = self._clock(), self._allocator.stats()
        reason = self._policy.decide(
            now, stats, self._budget.headroom(stats), waiting=waiting, last_work=self._last_work
        )
        if reason is not None and not self._enabled:
            reason = None
        if reason is None and self._ooms.is_unhealthy and self._policy.is_due(now):
            reason = Reason.OUT_OF_MEMORY
        trim = None if reason is None else self._trim_if_quiet(reason)
        self._snapshot = self._look()
        return trim

    def trim_if_idle(self, waiting: int) -> TrimRecord | None:
        """Trims on request if nothing is in flight or queued."""
        return None if waiting else self._trim_if_quiet(Reason.REQUEST)

    def trim(self, reason: Reason = Reason.REQUEST) -> TrimRecord | None:
        """Trims as soon as the batches of all engines are done; None if they take too long."""
        with self._gate.exclusive(DRAIN_S) as entered:
            return self._trim(reason) if entered else None

    def dump(self) -> bytes | None:
        """Every segment and block, pickled for torch's viewer; None on a CPU."""
        return None if self.is_lost else self._allocator.snapshot()

    def _trim_if_quiet(self, reason: Reason) -> TrimRecord | None:
        """Trims if no batch is inside the gate; else returns None."""
        with self._gate.exclusive() as entered:
            return self._trim(reason) if entered else None

    def _trim(self, reason: Reason) -> TrimRecord | None:
        if self.is_lost or self._allocator.capturing():
            return None
        now, before = self._clock(), self._allocator.stats()
        headroom = self._budget.headroom(before)
        host = reason not in (Reason.HARD, Reason.ROOM)
        seconds = self._release(host=host)
        left = self._allocator.stats()
        returned = before.reserved - left.reserved
        if host:
            returned += before.host_releasable - left.host_releasable
        self._policy.trimmed(now, reason, before, left, headroom)
        headroom = self._budget.headroom(left, max_age_s=0)
        self._ooms.after_trim(
            has_headroom=headroom.free >= self._policy.thresholds.low_water(headroom)
        )
        return self._record(TrimRecord(reason, seconds, max(0, returned)), before, left)

    def _release(self, *, host: bool) -> float:
        """Trims the device and, if `host`, the caches of host memory; returns the seconds."""
        begun = time.perf_counter()
        self._allocator.trim()
        if host:
            for give_back in self._before_host_trim:
                give_back()
            self._allocator.trim_host()
        return time.perf_counter() - begun

    def _record(self, trim: TrimRecord, before: Stats, left: Stats) -> TrimRecord:
        counted = self._trims.get(trim.reason, Trims()).add(trim.seconds, trim.returned_bytes)
        # Replaced rather than changed: other threads read it.
        self._trims = {**self._trims, trim.reason: counted}
        self._report(
            "trim",
            device=self._allocator.name,
            reason=trim.reason.value,
            ms=round(trim.seconds * 1e3, 3),
            returned_bytes=trim.returned_bytes,
            segments=before.segments - left.segments,
        )
        self._snapshot = self._look()
        return trim

    def _look(self) -> MemorySnapshot:
        now, stats = self._clock(), self._allocator.stats()
        return MemorySnapshot(
            device=self._allocator.name,
            taken=now,
            stats=stats,
            headroom=self._budget.headroom(stats),
            limit=self._budget.limit,
            trims=self._trims,
            oom_count=self._ooms.count,
            refused=self._refused,
            resident=resident_bytes(),
            healthy=not self._ooms.is_unhealthy,
        )
