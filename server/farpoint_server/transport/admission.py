"""Bounds on the points and bytes of calls, in total and by caller."""

import time
from collections.abc import Callable

from farpoint_server import request_context
from farpoint_server.errors import CallerShareError, OverloadedError

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
        retry_ms: Milliseconds after which a refused caller may retry.
        caller_share: Part of each bound that one caller may hold while others hold some.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        max_points: int,
        max_bytes: int,
        retry_ms: int,
        caller_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_points = max_points
        self.max_bytes = max_bytes
        self._retry_ms = retry_ms
        self._share_points = int(caller_share * max_points)
        self._share_bytes = int(caller_share * max_bytes)
        self._clock = clock
        self.points = 0
        """Of the requests that are inside now."""
        self.bytes = 0
        """Of their messages and of responses that are not sent yet."""
        self._callers: dict[str, list[int]] = {}
        """Points and bytes of each caller with requests inside."""
        self._shut_out: tuple[str, float] = ("", -float("inf"))
        """The caller that was refused last with nothing inside, and when."""

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
        if not any(self._callers[caller]):
            del self._callers[caller]

    def _count(self, caller: str, points: int, size: int) -> None:
        self.points += points
        self.bytes += size
        held = self._callers.setdefault(caller, [0, 0])
        held[0] += points
        held[1] += size

    def _check(
        self, caller: str, points: int, size: int, own_points: int = 0, own_size: int = 0
    ) -> None:
        held = self._callers.get(caller)
        total_points, total_bytes = self.points + points, self.bytes + size
        if held is not None and self._has_others(caller):
            self._check_share(held[0] > own_points, "points", held[0], points, self._share_points)
            self._check_share(held[1] > own_size, "bytes", held[1], size, self._share_bytes)
        if total_points <= self.max_points and total_bytes <= self.max_bytes:
            return
        if held is None:
            self._shut_out = caller, self._clock()
        for unit, inside, more, most in (
            ("points", self.points, points, self.max_points),
            ("bytes", self.bytes, size, self.max_bytes),
        ):
            if inside + more > most:
                message = f"the server holds {inside} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", self._retry_ms)

    def _check_share(self, has_more: bool, unit: str, inside: int, more: int, most: int) -> None:
        """Refuses requests beyond a caller's share, if it has others in flight."""
        if has_more and inside + more > most:
            message = f"this caller holds {inside} {unit} of its share of {most}"
            raise CallerShareError(f"{message}; no room for {more} more", self._retry_ms)

    def _has_others(self, caller: str) -> bool:
        """Whether another caller holds some, or was recently refused while holding nothing."""
        if len(self._callers) > 1:
            return True
        who, when = self._shut_out
        waits_s = WAITING_RETRIES * self._retry_ms / 1e3
        return who != caller and self._clock() - when < waits_s


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
