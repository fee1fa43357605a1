"""When to trim: a pure function of what is seen and of what was done before.

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
# So many batches out of memory within so long: somebody else should serve until there is room.
OOMS, OOMS_S = 3, 60.0


class Level(str, Enum):
    """Why the policy trims."""

    HARD = "hard"
    """The device is nearly full: a neighbor, or this process itself, needs room."""
    SOFT = "soft"
    """Far more is cached than any recent batch has used."""
    FRAGMENTATION = "fragmentation"
    """Much is cached in segments that live blocks keep."""
    IDLE = "idle"
    """Nobody has asked for anything for a while."""


@dataclass(frozen=True)
class Limits:
    """Thresholds of the four levels."""

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
    """When the last forward ended."""

    @property
    def available(self) -> int:
        """What the neighbors leave to this process, its cache included."""
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


def decide(signals: Signals, history: History, limits: Limits) -> tuple[Level | None, History]:
    """The level that asks for a trim now, if one does, and the history to decide on next."""
    history = replace(history, soft_since=_soft_since(signals, history, limits))
    if history.last_trim is not None and signals.now - history.last_trim < limits.interval_s:
        return None, history
    return _level(signals, history, limits), history


def trimmed(signals: Signals, history: History, left: Stats, level: Level | None) -> History:
    """The history after a trim that began at `signals` and left `left`.

    A trim that nobody's load asked for (level None or IDLE) says nothing about what load needs.
    """
    mark = history.mark
    if level not in (None, Level.IDLE):
        mark = Mark(signals.stats.reserved, signals.demand, signals.available)
    return History(last_trim=signals.now, residue=_residue(signals.stats, left), mark=mark)


def _residue(before: Stats, left: Stats) -> int:
    """What stayed of the releasable bytes; not what others have freed during the trim."""
    returned = before.reserved - left.reserved
    return min(left.releasable, max(0, before.releasable - returned))


def _level(signals: Signals, history: History, limits: Limits) -> Level | None:
    stats = signals.stats
    gain = stats.releasable - history.residue
    if gain >= limits.min_trim_bytes and _has_changed(signals, history.mark, limits):
        if signals.room.free < limits.low_water(signals.room):
            return Level.HARD
        if signals.waiting == 0 and _lasts(signals, history, limits):
            return Level.SOFT
        if signals.waiting == 0 and _is_fragmented(signals, limits):
            return Level.FRAGMENTATION
    is_idle = signals.waiting == 0 and signals.now - signals.last_work >= limits.idle_s
    if is_idle and gain + stats.host_releasable >= limits.min_trim_bytes:
        return Level.IDLE
    return None


def _has_changed(signals: Signals, mark: Mark | None, limits: Limits) -> bool:
    """Whether a trim can help: not if the same load only filled the cache again."""
    if mark is None:
        return True
    return (
        signals.stats.reserved > GROWTH * mark.reserved
        or signals.demand < SHRINKAGE * mark.demand
        or signals.available < mark.available - limits.min_trim_bytes
    )


def _soft_since(signals: Signals, history: History, limits: Limits) -> float | None:
    if signals.stats.idle <= limits.high_water(signals.demand, signals.room):
        return None
    return signals.now if history.soft_since is None else history.soft_since


def _lasts(signals: Signals, history: History, limits: Limits) -> bool:
    return history.soft_since is not None and signals.now - history.soft_since >= limits.soft_s


def _is_fragmented(signals: Signals, limits: Limits) -> bool:
    stats = signals.stats
    return (
        stats.fragmentation > limits.fragmentation
        and stats.reserved > limits.soft_demand * signals.demand
    )


class OomTracker:
    """Too many ladders within a minute: somebody else should serve until there is room again."""

    def __init__(self) -> None:
        self.ladders = 0
        self.is_unwell = False
        self._times: deque[float] = deque(maxlen=OOMS)

    def count(self, now: float) -> None:
        """One more batch that ran out, at `now` seconds."""
        self.ladders += 1
        self._times.append(now)
        full = len(self._times) == OOMS
        self.is_unwell |= full and now - self._times[0] < OOMS_S

    def relieve(self, *, has_room: bool) -> None:
        """After a trim."""
        self.is_unwell &= not has_room
