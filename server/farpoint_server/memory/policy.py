"""When to give cached memory back: pure functions of allocator statistics, queue and history.

Four levels, the first that applies wins. All of them keep `interval_s` between trims and want at
least `min_trim_bytes` to come back. Whether anything is in flight is the manager's business.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from farpoint_server.memory.allocator import Room, Stats

# A trim that the load undid is not repeated until the load has changed by this much.
GROWTH = 1.25
SHRINKAGE = 0.5
# So many batches out of memory in so many seconds: others should serve until there is room.
OOMS, OOMS_S = 3, 60.0


class TrimLevel(str, Enum):
    """Why the policy trims."""

    HARD = "hard"
    """The device is nearly full: other processes, or this one itself, need room."""
    SOFT = "soft"
    """Far more is cached than any recent batch has used."""
    FRAGMENTATION = "fragmentation"
    """Much is cached in segments that live blocks keep."""
    IDLE = "idle"
    """Nobody has asked for anything for a while."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the four levels; bytes, seconds, and shares of the device.

    Args:
        hard_bytes: Free bytes of the device below which the cache is handed back even with
            requests waiting.
        hard_share: The same as a share; the larger one counts, at most a tenth of the device.
        soft_bytes: Cached bytes above which the cache is handed back when nobody waits.
        soft_share: The same as a share; the largest of the three counts.
        soft_demand: The same as a multiple of what recent batches used.
        soft_s: Seconds for which so much must have been cached.
        fragmentation: Share of the reserved memory that may be cached in segments which live
            memory keeps.
        idle_s: Seconds without work after which all cached memory is handed back.
        interval_s: Least seconds between two trims.
        min_trim_bytes: Bytes that must come back for a trim to be worth it.
    """

    hard_bytes: int = 1 << 30
    hard_share: float = 0.03
    soft_bytes: int = 1 << 30
    soft_share: float = 0.1
    soft_demand: float = 2.0
    soft_s: float = 2.0
    fragmentation: float = 0.3
    idle_s: float = 30.0
    interval_s: float = 10.0
    min_trim_bytes: int = 64 << 20

    def low_water(self, room: Room) -> int:
        """Free bytes of the device below which it counts as full.

        At most a tenth of it, or a small device would always be full.
        """
        wanted = max(self.hard_bytes, int(self.hard_share * room.total))
        return min(wanted, room.total // 10)

    def high_water(self, demand: int, room: Room) -> int:
        """Cached bytes above which too much is cached."""
        by_demand, by_device = self.soft_demand * demand, self.soft_share * room.total
        return max(self.soft_bytes, int(by_demand), int(by_device))


# A trim of the heap costs milliseconds and the next request pays page faults alone. A trim of a
# GPU waits for it and costs a driver call per segment, and the next request pays as many.
CUDA_THRESHOLDS = Thresholds()
CPU_THRESHOLDS = Thresholds(idle_s=2.0, interval_s=2.0, min_trim_bytes=8 << 20)


@dataclass(frozen=True)
class Signals:
    """What is seen at one moment."""

    now: float
    """Seconds of a monotonic clock."""
    stats: Stats
    room: Room
    demand: int
    """Decaying maximum of what one batch used, in bytes."""
    waiting: int
    """Requests in the queue."""
    last_work: float
    """When the last batch ended."""

    @property
    def available(self) -> int:
        """What other processes leave to this one, its cache included."""
        return self.room.free + self.stats.reserved


@dataclass(frozen=True)
class Mark:
    """How things were at the last trim for load."""

    reserved: int
    demand: int
    available: int


@dataclass(frozen=True)
class History:
    """What the policy remembers."""

    last_trim: float | None = None
    soft_since: float | None = None
    """Since when too much has been cached."""
    residue: int = 0
    """What a trim left though it was counted as releasable."""
    mark: Mark | None = None


def decide(
    signals: Signals, history: History, thresholds: Thresholds
) -> tuple[TrimLevel | None, History]:
    """The level that asks for a trim now, if one does, and the history to decide on next."""
    history = replace(history, soft_since=_soft_since(signals, history, thresholds))
    if history.last_trim is not None and signals.now - history.last_trim < thresholds.interval_s:
        return None, history
    return _level(signals, history, thresholds), history


def trimmed(signals: Signals, history: History, left: Stats, level: TrimLevel | None) -> History:
    """The history after a trim that began at `signals` and left `left`.

    A trim that nobody's load asked for (level None or IDLE) says nothing about what load needs.
    """
    mark = history.mark
    if level not in (None, TrimLevel.IDLE):
        mark = Mark(signals.stats.reserved, signals.demand, signals.available)
    return History(last_trim=signals.now, residue=_residue(signals.stats, left), mark=mark)


def _residue(before: Stats, left: Stats) -> int:
    """What stayed of the releasable bytes; not what others have freed during the trim."""
    returned = before.reserved - left.reserved
    return min(left.releasable, max(0, before.releasable - returned))


def _level(signals: Signals, history: History, thresholds: Thresholds) -> TrimLevel | None:
    stats = signals.stats
    gain = stats.releasable - history.residue
    if gain >= thresholds.min_trim_bytes and _has_changed(signals, history.mark, thresholds):
        if signals.room.free < thresholds.low_water(signals.room):
            return TrimLevel.HARD
        if signals.waiting == 0 and _lasts(signals, history, thresholds):
            return TrimLevel.SOFT
        if signals.waiting == 0 and _is_fragmented(signals, thresholds):
            return TrimLevel.FRAGMENTATION
    is_idle = signals.waiting == 0 and signals.now - signals.last_work >= thresholds.idle_s
    if is_idle and gain + stats.host_releasable >= thresholds.min_trim_bytes:
        return TrimLevel.IDLE
    return None


def _has_changed(signals: Signals, mark: Mark | None, thresholds: Thresholds) -> bool:
    """Whether a trim can help: not if the same load only filled the cache again."""
    if mark is None:
        return True
    return (
        signals.stats.reserved > GROWTH * mark.reserved
        or signals.demand < SHRINKAGE * mark.demand
        or signals.available < mark.available - thresholds.min_trim_bytes
    )


def _soft_since(signals: Signals, history: History, thresholds: Thresholds) -> float | None:
    if signals.stats.idle <= thresholds.high_water(signals.demand, signals.room):
        return None
    return signals.now if history.soft_since is None else history.soft_since


def _lasts(signals: Signals, history: History, thresholds: Thresholds) -> bool:
    return history.soft_since is not None and signals.now - history.soft_since >= thresholds.soft_s


def _is_fragmented(signals: Signals, thresholds: Thresholds) -> bool:
    stats = signals.stats
    return (
        stats.fragmentation > thresholds.fragmentation
        and stats.reserved > thresholds.soft_demand * signals.demand
    )


class OomTracker:
    """Counts batches that ran out of memory; too many within a minute make a device unhealthy."""

    def __init__(self) -> None:
        self.count = 0
        """Since the process began."""
        self.is_unhealthy = False
        self._times: deque[float] = deque(maxlen=OOMS)

    def add(self, now: float) -> None:
        """One more batch that ran out, at `now` seconds."""
        self.count += 1
        self._times.append(now)
        full = len(self._times) == OOMS
        self.is_unhealthy |= full and now - self._times[0] < OOMS_S

    def after_trim(self, *, has_room: bool) -> None:
        """A trim that found room makes the device healthy again."""
        self.is_unhealthy &= not has_room
