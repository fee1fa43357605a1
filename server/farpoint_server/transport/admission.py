"""Bounds on the points and bytes of calls, in total and by caller."""

import time
from collections.abc import Callable

from farpoint_server import request_context
from farpoint_server.errors import FULL_RETRY_MS, CallerShareError, OverloadedError
from farpoint_server.transport.counts import Count, Counts

# A caller that was refused with nothing inside counts as waiting for so many times its retry time.
WAITING_RETRIES = 4


class Admission:
    """Bounds on all requests between their acceptance and their answer.

    A caller alone may fill the server. While others hold something, or were refused a moment ago
    with nothing inside, it is refused what goes beyond its share, and so makes room for them. One
    request is always within the share.

    Args:
        max_points: Points of their clouds.
        max_bytes: Bytes of their messages.
        caller_share: Part of each bound that one caller may hold while others hold some.
        clock: Seconds, monotonic.
        counts: Of all front ends; its own if None.
    """

    def __init__(
        self,
        max_points: int,
        max_bytes: int,
        caller_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        counts: Counts | None = None,
    ) -> None:
        self.max_points = max_points
        self.max_bytes = max_bytes
        self._share_points = int(caller_share * max_points)
        self._share_bytes = int(caller_share * max_bytes)
        self._clock = clock
        self._counts = counts or Counts()

    @property
    def points(self) -> int:
        """Of the requests that are inside now."""
        return self._counts.total(Count.POINTS)

    @property
    def bytes(self) -> int:
        """Of their messages and of responses that are not sent yet."""
        return self._counts.total(Count.BYTES)

    def check_headroom(self) -> None:
        """Raises OverloadedError if not even a request of one point would fit."""
        self._check(request_context.caller.get(), 1, 1)

    def reserve(self, points: int, size: int) -> "Reservation":
        """A block in which a request's points and bytes count for its caller.

        Raises:
            OverloadedError: on entering; there is no room, and the request must not be kept.
        """
        return Reservation(self, request_context.caller.get(), points, size)

    def add(
        self, caller: str, points: int, size: int, own_points: int = 0, own_size: int = 0
    ) -> None:
        """Counts points and bytes, of a request that holds `own_points` and `own_size` already.

        Raises:
            OverloadedError: there is no room.
        """
        self._check(caller, points, size, own_points, own_size)
        self._count(caller, points, size)

    def add_response(self, caller: str, size: int) -> None:
        """Counts a response, which is not refused; requests have less room."""
        self._count(caller, 0, size)

    def remove(self, caller: str, points: int, size: int) -> None:
        """Stops counting what `add` or `add_response` counted."""
        self._count(caller, -points, -size)

    def _count(self, caller: str, points: int, size: int) -> None:
        if points:
            self._counts.add(caller, Count.POINTS, points)
        self._counts.add(caller, Count.BYTES, size)

    def _check(
        self, caller: str, points: int, size: int, own_points: int = 0, own_size: int = 0
    ) -> None:
        inside_points, inside_bytes = self.points, self.bytes
        held_points = held_bytes = 0
        if inside_points or inside_bytes:
            held_points = self._counts.held(caller, Count.POINTS)
            held_bytes = self._counts.held(caller, Count.BYTES)
        is_alone = (held_points, held_bytes) == (inside_points, inside_bytes)
        holds_some = held_points or held_bytes
        if holds_some and (not is_alone or self._keeps_out_another(caller)):
            has_more = held_points > own_points
            self._check_share(has_more, "points", held_points, points, self._share_points)
            self._check_share(held_bytes > own_size, "bytes", held_bytes, size, self._share_bytes)
        if inside_points + points <= self.max_points and inside_bytes + size <= self.max_bytes:
            return
        if not holds_some:
            self._counts.note_refused(caller, self._clock())
        for unit, inside, more, most in (
            ("points", inside_points, points, self.max_points),
            ("bytes", inside_bytes, size, self.max_bytes),
        ):
            if inside + more > most:
                message = f"the server holds {inside} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", FULL_RETRY_MS)

    def _check_share(self, has_more: bool, unit: str, inside: int, more: int, most: int) -> None:
        """Refuses requests beyond a caller's share, if it has others in flight."""
        if has_more and inside + more > most:
            message = f"this caller holds {inside} {unit} of its share of {most}"
            raise CallerShareError(f"{message}; no room for {more} more", FULL_RETRY_MS)

    def _keeps_out_another(self, caller: str) -> bool:
        """Whether another caller was recently refused while holding nothing."""
        waited_s = self._clock() - self._counts.refused_another_at(caller)
        return waited_s < WAITING_RETRIES * FULL_RETRY_MS / 1e3


class Reservation:
    """A block in which points and bytes count; a class costs a third of a generator."""

    __slots__ = ("_admission", "_caller", "_points", "_size")

    def __init__(self, admission: Admission, caller: str, points: int, size: int) -> None:
        self._admission, self._caller, self._points, self._size = admission, caller, points, size

    def __enter__(self) -> "Reservation":
        self._admission.add(self._caller, self._points, self._size)
        return self

    def add(self, points: int, size: int) -> None:
        """Counts more until the block ends; raises OverloadedError if there is no room."""
        self._admission.add(self._caller, points, size, self._points, self._size)
        self._points += points
        self._size += size

    def __exit__(self, *_: object) -> None:
        self._admission.remove(self._caller, self._points, self._size)
