"""What memory of a device is there for batches, and whether a batch fits."""

from collections.abc import Callable

from farpoint_server.memory.allocator import Allocator, Room, Stats
from farpoint_server.memory.oom import TooLarge
from farpoint_server.memory.prediction import OBSERVED_BYTES, SAMPLE, UsageTracker

# A batch that takes half of what there is leaves room for the next one's copy.
BATCH_SHARE = 0.5
# mem_get_info is a driver call.
ROOM_AGE_S = 1.0


class Budget:
    """Bytes that are there for batches, now and at best, and whether a batch fits.

    Args:
        allocator: Of the device.
        usage: Corrects what is predicted.
        limit: Most bytes that this process may hold; None: the whole device.
        reserve: Bytes of the device that stay free for libraries and their context.
        bounded: Whether predictions refuse anything at all.
        clock: Seconds.
    """

    def __init__(
        self,
        allocator: Allocator,
        usage: UsageTracker,
        limit: int | None,
        reserve: int,
        *,
        bounded: bool,
        clock: Callable[[], float],
    ) -> None:
        self.bounded = bounded
        self.limit = limit
        self._allocator = allocator
        self._usage = usage
        self._reserve = reserve
        self._clock = clock
        stats = allocator.stats()
        # Replaced as a whole: the threads of all lanes read it.
        self._seen = room, _, _ = allocator.room(), stats.reserved, clock()
        total = room.total - reserve
        best = total if limit is None else min(limit, total)
        self._capacity = max(0, best - stats.allocated)

    def room(self, stats: Stats, max_age_s: float = ROOM_AGE_S) -> Room:
        """The whole device's room: what others take as of at most `max_age_s` ago, we as of now."""
        now, (room, reserved, seen) = self._clock(), self._seen
        if now - seen >= max_age_s:
            self._seen = room, reserved, _ = self._allocator.room(), stats.reserved, now
        free = room.free + reserved - stats.reserved
        return Room(min(max(0, free), room.total), room.total)

    def batch_bytes(self) -> float:
        """Bytes that one batch may take now if it can be cut."""
        stats = self._allocator.stats()
        return BATCH_SHARE * self._available(stats, self.room(stats))

    def check(self, predicted: int, kind: str = SAMPLE) -> None:
        """Raises TooLarge for a request of `predicted` bytes that this device can never do."""
        needed = self._usage.correction_of(kind).optimistic(predicted)
        if self.bounded and needed > self._capacity:
            raise TooLarge(
                f"the request needs about {needed} bytes on {self._allocator.name}, which can give "
                f"{self._capacity} at most"
            )

    def has_room_beside(self, predicted: int, kind: str = SAMPLE) -> bool:
        """Whether a batch fits beside those in flight, uncut, and with nothing to be flushed."""
        if not self.bounded:
            return True
        needed, stats = self._usage.correction_of(kind).apply(predicted), self._allocator.stats()
        room = self.room(stats)
        return needed <= min(
            self._uninterrupted(stats, room), BATCH_SHARE * self._available(stats, room)
        )

    def may_begin(
        self, predicted: int, kind: str = SAMPLE, *, alone: bool, trim: Callable[[], object]
    ) -> bool:
        """Whether a batch may begin, after a `trim` where only that can make it fit.

        If neither the cache nor the rest of the device can hold the batch, but both together can,
        the allocator would flush its cache itself, in the middle of the batch.

        Args:
            predicted: Bytes of the batch.
            kind: Of the batch.
            alone: Whether it is a single request, which is given a chance that a wrong correction
                must not take from it.
            trim: Trims the device if nothing is in flight.
        """
        if not self.bounded or predicted < OBSERVED_BYTES:
            return True
        correction = self._usage.correction_of(kind)
        needed, stats = correction.apply(predicted), self._allocator.stats()
        room = self.room(stats)
        if needed > self._uninterrupted(stats, room):
            room = self.room(stats, max_age_s=0)
            if stats.releasable and needed > room.free - self._reserve:
                trim()
                stats = self._allocator.stats()
                room = self.room(stats, max_age_s=0)
        least = correction.optimistic(predicted) if alone else needed
        return least <= max(stats.idle, self._available(stats, room))

    def _uninterrupted(self, stats: Stats, room: Room) -> int:
        """Bytes that a batch may take now without a flush of the cache."""
        return max(stats.idle, room.free - self._reserve)

    def _available(self, stats: Stats, room: Room) -> int:
        """Bytes that a batch may take now, after a trim if need be."""
        limit = room.total if self.limit is None else self.limit
        left = room.free + stats.releasable - self._reserve
        return max(0, min(limit - stats.allocated, left))
