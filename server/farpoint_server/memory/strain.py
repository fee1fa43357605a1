"""Whether a device keeps running out of memory."""

from collections import deque

LADDERS, LADDERS_S = 3, 60.0


class Strain:
    """Too many ladders within a minute: somebody else should serve until there is room again."""

    def __init__(self) -> None:
        self.ladders = 0
        self.is_unwell = False
        self._times: deque[float] = deque(maxlen=LADDERS)

    def count(self, now: float) -> None:
        """One more batch that ran out, at `now` seconds."""
        self.ladders += 1
        self._times.append(now)
        full = len(self._times) == LADDERS
        self.is_unwell |= full and now - self._times[0] < LADDERS_S

    def relieve(self, *, has_room: bool) -> None:
        """After a trim."""
        self.is_unwell &= not has_room
