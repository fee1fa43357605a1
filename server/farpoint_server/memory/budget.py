"""What a batch may take of a device."""

from collections.abc import Callable

from farpoint_server.memory.allocator import Allocator, Room, Stats

# mem_get_info is a driver call.
ROOM_AGE_S = 1.0


class Budget:
    """Bytes that are there for forwards, now and at best.

    Args:
        allocator: Of the device.
        limit: Most bytes that this process may hold; 0 is the whole device.
        reserve: Bytes of the device that stay free for libraries and their context.
        bounded: Whether predictions refuse anything at all.
        clock: Seconds.
    """

    def __init__(
        self,
        allocator: Allocator,
        limit: int,
        reserve: int,
        *,
        bounded: bool,
        clock: Callable[[], float],
    ) -> None:
        self.bounded = bounded
        self.limit = limit
        self._allocator = allocator
        self.reserve = reserve
        self._clock = clock
        stats = allocator.stats()
        self._room, self._reserved, self._seen = allocator.room(), stats.reserved, clock()
        total = self._room.total - reserve
        best = min(limit, total) if limit else total
        self.capacity = max(0, best - stats.allocated)
        """Bytes that the largest batch may ever take."""

    def room(self, stats: Stats, max_age_s: float = ROOM_AGE_S) -> Room:
        """The whole device's room: what others take as of at most `max_age_s` ago, we as of now."""
        now = self._clock()
        if now - self._seen >= max_age_s:
            self._room, self._reserved, self._seen = self._allocator.room(), stats.reserved, now
        free = self._room.free + self._reserved - stats.reserved
        return Room(min(max(0, free), self._room.total), self._room.total)

    def available(self, stats: Stats, room: Room) -> int:
        """Bytes that a batch may take now, after a trim if need be."""
        limit = self.limit or room.total
        left = room.free + stats.releasable - self.reserve
        return max(0, min(limit - stats.allocated, left))
