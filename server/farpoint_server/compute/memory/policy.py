"""The policy of trims.

Reading this loads no torch.
"""

from collections import deque
from dataclasses import dataclass
from math import inf

from farpoint_server.compute.memory.snapshot import Headroom, Reason, Stats

MIB = 1 << 20
# Batches out of memory, and the seconds within which they make a device unhealthy.
OOMS, OOMS_S = 3, 60.0


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the policy; bytes, seconds, and shares of the device.

    Args:
        hard_bytes: Free bytes of the device below which the cache goes back even with requests
            waiting.
        hard_share: The same as a share; the larger one counts, at most a tenth of the device.
        idle_s: Seconds without work after which all cached memory goes back.
        interval_s: Least seconds between two trims.
        min_trim_bytes: Bytes that must come back for a trim to be worth it.
    """

    hard_bytes: int = 1 << 30
    hard_share: float = 0.03
    idle_s: float = 30.0
    interval_s: float = 10.0
    min_trim_bytes: int = 64 * MIB

    def low_water(self, headroom: Headroom) -> int:
        """Free bytes below which the device counts as full.

        At most a tenth of it, or a small device would always be full.
        """
        wanted = max(self.hard_bytes, int(self.hard_share * headroom.total))
        return min(wanted, headroom.total // 10)


# A trim of the heap costs milliseconds and the next request pays page faults alone. A trim of a
# GPU waits for it and costs a driver call per segment, and the next request pays as many.
CUDA_THRESHOLDS = Thresholds()
CPU_THRESHOLDS = Thresholds(idle_s=2.0, interval_s=2.0, min_trim_bytes=8 * MIB)


class TrimPolicy:
    """Decides when to trim a device; `Manager` checks that no batch runs."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._last_trim = -inf
        self._kept = 0
        # High-water mark of available bytes since the last hard trim.
        self._available = inf

    def is_due(self, now: float) -> bool:
        """Whether enough time has passed since the last trim."""
        return now - self._last_trim >= self.thresholds.interval_s

    def decide(
        self, now: float, stats: Stats, headroom: Headroom, *, waiting: int, last_work: float
    ) -> Reason | None:
        """The reason for a trim now, if there is one.

        `waiting` is the number of queued requests, `last_work` the end of the last batch.
        """
        limits, available = self.thresholds, headroom.free + stats.reserved
        # Without this, a load that fills the device by itself would be trimmed again and again.
        others_took = available < self._available - limits.min_trim_bytes
        self._available = max(self._available, available)
        if not self.is_due(now):
            return None
        gain = stats.releasable - self._kept
        is_full = headroom.free < limits.low_water(headroom)
        if is_full and others_took and gain >= limits.min_trim_bytes:
            return Reason.HARD
        is_idle = waiting == 0 and now - last_work >= limits.idle_s
        if is_idle and gain + stats.host_releasable >= limits.min_trim_bytes:
            return Reason.IDLE
        return None

    def trimmed(
        self, now: float, reason: Reason, before: Stats, left: Stats, headroom: Headroom
    ) -> None:
        """Records a trim that began at `now`, and the bytes that it could not release.

        `before` and `headroom` are from before the trim, `left` is from after it.
        """
        self._last_trim = now
        # Memory that other threads freed meanwhile is left to the next trim.
        stayed = before.releasable - (before.reserved - left.reserved)
        self._kept = min(left.releasable, max(0, stayed))
        if reason in (Reason.HARD, Reason.ROOM):
            self._available = headroom.free + before.reserved


class OomTracker:
    """Counts batches that ran out of memory; too many within a minute make a device unhealthy."""

    def __init__(self) -> None:
        self.count = 0
        """Since the process began."""
        self.is_unhealthy = False
        self._times: deque[float] = deque(maxlen=OOMS)

    def add(self, now: float) -> None:
        """Counts a batch that ran out of memory, at `now` seconds."""
        self.count += 1
        self._times.append(now)
        full = len(self._times) == OOMS
        self.is_unhealthy |= full and now - self._times[0] < OOMS_S

    def after_trim(self, *, has_headroom: bool) -> None:
        """Makes the device healthy again if a trim freed enough."""
        self.is_unhealthy &= not has_headroom
