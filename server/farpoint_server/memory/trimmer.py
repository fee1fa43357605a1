"""The trims of a device: when the policy or somebody asks, timed and counted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from farpoint_server.memory import policy
from farpoint_server.memory.allocator import Allocator, Stats
from farpoint_server.memory.budget import Budget
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.policy import History, OomTracker, Signals, Thresholds, TrimLevel
from farpoint_server.memory.prediction import UsageTracker
from farpoint_server.memory.snapshot import Reason, Trims

# Batches that are in flight get so long to end before a trim that cannot wait for a quiet moment.
DRAIN_S = 10.0

Report = Callable[..., object]


@dataclass(frozen=True)
class TrimRecord:
    """One trim that was made."""

    reason: Reason
    seconds: float
    returned_bytes: int
    left: Stats


class Trimmer:
    """The only caller of `Allocator.trim`: when the policy asks for it, or somebody else.

    All but `trims` belongs to the engine's thread.

    Args:
        allocator: What is trimmed.
        thresholds: Of the policy.
        gate: Shared with all whose batches a trim would meet.
        budget: What is known of the device.
        usage: What is known of the batches.
        enabled: Whether `poll` trims because of the policy.
        report: Called with an event and its fields for each trim.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        allocator: Allocator,
        thresholds: Thresholds,
        gate: Gate,
        budget: Budget,
        usage: UsageTracker,
        *,
        enabled: bool,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._allocator = allocator
        self._thresholds = thresholds
        self._gate = gate
        self._budget = budget
        self._usage = usage
        self._enabled = enabled
        self._report = report
        self._clock = clock
        self._history = History()
        self.ooms = OomTracker()
        self.last_work = clock()
        """When the last batch ended."""
        self.trims: dict[Reason, Trims] = {}
        self.before_host_trim: list[Callable[[], None]] = []
        """What hands host memory to the caches that are about to be trimmed."""

    def poll(self, waiting: int) -> TrimRecord | None:
        """Trims if the policy asks for it and nothing is in flight.

        Args:
            waiting: Requests in the queue.
        """
        signals = self._signals(waiting)
        level, self._history = policy.decide(signals, self._history, self._thresholds)
        if level is not None and self._enabled:
            trim = self._attempt(Reason(level.value), host=level is TrimLevel.IDLE)
        elif self.ooms.is_unhealthy and self._is_due(signals.now):
            trim = self._attempt(Reason.OUT_OF_MEMORY, host=True)
        else:
            trim = None
        return self._remember(trim, signals, level)

    def trim_if_idle(self) -> TrimRecord | None:
        """Trims device and host, because somebody asked, if no batch is inside the gate."""
        signals = self._signals(waiting=0)
        return self._remember(self._attempt(Reason.REQUEST, host=True), signals, None)

    def make_room(self) -> TrimRecord | None:
        """Trims the device before a batch that needs the room, if no batch is inside the gate."""
        signals = self._signals(waiting=0)
        return self._remember(self._attempt(Reason.ROOM, host=False), signals, TrimLevel.HARD)

    def trim(self, reason: Reason) -> TrimRecord | None:
        """Trims device and host as soon as the batches inside are done; None if they are not."""
        signals = self._signals(waiting=0)
        with self._gate.exclusive(DRAIN_S) as entered:
            trim = self._trim(reason, host=True) if entered else None
        return self._remember(trim, signals, None)

    def _attempt(self, reason: Reason, *, host: bool) -> TrimRecord | None:
        """Trims if no batch is inside the gate; else leaves it and returns None."""
        with self._gate.try_exclusive() as entered:
            return self._trim(reason, host=host) if entered else None

    def _trim(self, reason: Reason, *, host: bool) -> TrimRecord | None:
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
        trim = TrimRecord(reason, seconds, _returned(before, left, host=host), left)
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

    def _remember(
        self, trim: TrimRecord | None, signals: Signals, level: TrimLevel | None
    ) -> TrimRecord | None:
        if trim is not None:
            self._history = policy.trimmed(signals, self._history, trim.left, level)
            room = self._budget.room(trim.left, max_age_s=0)
            self.ooms.after_trim(has_room=room.free >= self._thresholds.low_water(room))
        return trim

    def _is_due(self, now: float) -> bool:
        last = self._history.last_trim
        return last is None or now - last >= self._thresholds.interval_s

    def _signals(self, waiting: int) -> Signals:
        now, stats = self._clock(), self._allocator.stats()
        return Signals(
            now=now,
            stats=stats,
            room=self._budget.room(stats),
            demand=self._usage.demand,
            waiting=waiting,
            last_work=self.last_work,
        )


def _returned(before: Stats, left: Stats, *, host: bool) -> int:
    returned = before.reserved - left.reserved
    if host:
        returned += before.host_releasable - left.host_releasable
    return max(0, returned)
