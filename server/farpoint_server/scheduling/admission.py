"""Admission control: bounds on what is held at once; what is beyond is refused, not queued."""

from farpoint_server.errors import OverloadedError


class Admission:
    """Bounds on all requests between their acceptance and their answer.

    Args:
        max_points: Points of their clouds.
        max_bytes: Bytes of their messages.
        retry_ms: Milliseconds that a refused caller is told to wait.
    """

    def __init__(self, max_points: int, max_bytes: int, retry_ms: int) -> None:
        self.max_points = max_points
        self.max_bytes = max_bytes
        self._retry_ms = retry_ms
        self._points = 0
        self._bytes = 0

    @property
    def points(self) -> int:
        """Points of the requests that are inside now."""
        return self._points

    @property
    def bytes(self) -> int:
        """Bytes of the requests that are inside now."""
        return self._bytes

    def check_room(self) -> None:
        """Raises OverloadedError if not even a request of one point would fit."""
        self._check(1, 1)

    def hold(self, points: int, size: int) -> "Hold":
        """Counts a request's points and bytes while a block runs.

        Raises:
            OverloadedError: on entering; there is no room, and the request must not be kept.
        """
        return Hold(self, points, size)

    def add(self, points: int, size: int) -> None:
        """Begins to count points and bytes; raises OverloadedError where there is no room."""
        self._check(points, size)
        self._points += points
        self._bytes += size

    def add_response(self, size: int) -> None:
        """Begins to count a response, whose bytes are there already; others find less room."""
        self._bytes += size

    def remove(self, points: int, size: int) -> None:
        """Ends what `add` or `add_response` began."""
        self._points -= points
        self._bytes -= size

    def _check(self, points: int, size: int) -> None:
        if self._points + points <= self.max_points and self._bytes + size <= self.max_bytes:
            return
        for unit, held, more, most in (
            ("points", self._points, points, self.max_points),
            ("bytes", self._bytes, size, self.max_bytes),
        ):
            if held + more > most:
                message = f"the server holds {held} {unit} of at most {most}; no room for {more}"
                raise OverloadedError(f"{message} more", self._retry_ms)


class Hold:
    """A block in which points and bytes count. A class costs a third of a generator here."""

    __slots__ = ("_admission", "_points", "_size")

    def __init__(self, admission: Admission, points: int, size: int) -> None:
        self._admission, self._points, self._size = admission, points, size

    def __enter__(self) -> "Hold":
        self._admission.add(self._points, self._size)
        return self

    def add(self, points: int, size: int) -> None:
        """Has more count until the block ends; raises OverloadedError where there is no room."""
        self._admission.add(points, size)
        self._points += points
        self._size += size

    def __exit__(self, *_: object) -> None:
        self._admission.remove(self._points, self._size)
