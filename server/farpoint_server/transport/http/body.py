"""Body of an HTTP request: received on demand, bounded, and counted as it arrives."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive

from farpoint_server.errors import InvalidRequestError
from farpoint_server.transport.admission import Admission, Reservation

# Converted on the event loop; the way to another thread costs more.
INLINE_BYTES = 1 << 14

T = TypeVar("T")


@dataclass(frozen=True)
class BodyLimits:
    """Limits of the bodies of requests."""

    admission: Admission
    """Counts their bytes while they are received."""
    threads: ThreadPoolExecutor
    """Convert large ones."""
    max_bytes: int
    """Of one body."""
    clouds: int
    """Of one request."""


class Body:
    """The body of one request.

    Attributes:
        ended: Set once all of it has been received, or the caller has left.
    """

    def __init__(self, receive: Receive, headers: Headers, limits: BodyLimits) -> None:
        length = headers.get("content-length")
        self._length = None if length is None else int(length)
        self._receive, self._limits = receive, limits
        self.ended = asyncio.Event()

    async def read(self, convert: Callable[[bytes], bytes] | None, max_bytes: int) -> bytes:
        """The whole body, converted by `convert`.

        Raises:
            OverloadedError: the server has no memory for it.
            InvalidRequestError: it is larger than `max_bytes` or than the limit.
            asyncio.CancelledError: the caller has left.
        """
        most = min(max_bytes, self._limits.max_bytes)
        with self._limits.admission.reserve(0, 0) as reservation:
            raw = await self._read_all(most, reservation)
            if convert is None:
                return raw
            # The text and its message are in memory together.
            reservation.add(0, len(raw))
            return await self.run(convert, raw)

    async def run(self, convert: Callable[[bytes], T], raw: bytes) -> T:
        """Applies a function to bytes, on another thread if they are many."""
        if len(raw) <= INLINE_BYTES:
            return convert(raw)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._limits.threads, convert, raw)

    async def _read_all(self, most: int, reservation: Reservation) -> bytes:
        if self._length is not None and self._length > most:
            raise _too_large(most, f"{self._length} bytes")
        parts, size = [], 0
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self.ended.set()
                raise asyncio.CancelledError
            part: bytes = event.get("body", b"")
            size += len(part)
            if size > most:
                raise _too_large(most, "more")
            reservation.add(0, len(part))
            parts.append(part)
            if not event.get("more_body", False):
                self.ended.set()
                return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(most: int, got: str) -> InvalidRequestError:
    return InvalidRequestError("request", f"a body of at most {most} bytes", got)
