"""Hedging: a small call that takes long is sent again, and the first answer counts.

gRPC's own `hedgingPolicy` (gRFC A6) has no effect in Python, see docs/decisions/0074. Its words are
kept: attempts, a delay before each further one, a budget.
"""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from farpoint.errors import InvalidArgumentError

T = TypeVar("T")
# Attempts that the budget pays for before any call has added to it, and the most that it holds.
BURST = 10.0
# Another server may do better. After any other status none would.
_OTHERS_MAY_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


@dataclass(frozen=True)
class Hedging:
    """When a small `sample` or `encode` that has no answer yet is sent once more.

    Which server it goes to is up to the load balancing; the first answer counts, and the other
    attempts are cancelled.

    Args:
        delay: seconds without an answer before each further attempt; about the 95th percentile
            of what such calls take sends one in twenty twice.
        max_attempts: of one call, 2 to 5.
        max_bytes: of a request that is sent again; larger ones never are.
        budget: further attempts over calls that may have them, 0 to 1, after a burst of ten.

    Raises:
        InvalidArgumentError: a value is out of its bounds.
    """

    delay: float
    max_attempts: int = 2
    max_bytes: int = 1 << 18
    budget: float = 0.1

    def __post_init__(self) -> None:
        for name, expected, is_right in (
            ("delay", "seconds above 0", self.delay > 0),
            ("max_attempts", "2 to 5", 2 <= self.max_attempts <= 5),
            ("max_bytes", "at least 1", self.max_bytes >= 1),
            ("budget", "0 to 1", 0 <= self.budget <= 1),
        ):
            if not is_right:
                value = getattr(self, name)
                raise InvalidArgumentError(
                    f"hedging.{name} must be {expected}, got {value!r}", field=f"hedging.{name}"
                )


class Hedger:
    """Makes calls of one client; threads may share it."""

    def __init__(self, settings: Hedging) -> None:
        self.settings = settings
        self._tokens = BURST
        self._lock = threading.Lock()

    def call(self, begin: Callable[[], Any]) -> Any:
        """The first answer.

        Args:
            begin: sends the request once more; a future of gRPC.

        Raises:
            grpc.RpcError: no attempt was answered; that of the last one that ended.
        """
        self._add_tokens()
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        attempts: list[Any] = []
        running, left, may_begin = 0, self.settings.max_attempts, True
        try:
            while True:
                if may_begin:
                    attempts.append(begin())
                    attempts[-1].add_done_callback(ended.put)
                    running, left = running + 1, left - 1
                with suppress(queue.Empty):
                    attempt = ended.get(timeout=self.settings.delay if left else None)
                    running -= 1
                    if attempt.code() not in _OTHERS_MAY_ANSWER:
                        return _result(attempt)
                may_begin = left > 0 and self._take_token()
                left *= may_begin
                if not (running or may_begin):
                    raise attempt
        finally:
            for attempt in attempts:
                attempt.cancel()

    async def call_async(self, begin: Callable[[], Awaitable[T]]) -> T:
        """As `call`, with attempts that are awaited."""
        self._add_tokens()
        running: set[asyncio.Future[T]] = set()
        left, may_begin = self.settings.max_attempts, True
        try:
            while True:
                if may_begin:
                    running.add(asyncio.ensure_future(_awaited(begin())))
                    left -= 1
                delay = self.settings.delay if left else None
                ended, running = await asyncio.wait(
                    running, timeout=delay, return_when=asyncio.FIRST_COMPLETED
                )
                for attempt in ended:
                    if not _may_be_followed(attempt.exception()):
                        return attempt.result()
                may_begin = left > 0 and self._take_token()
                left *= may_begin
                if not (running or may_begin):
                    return attempt.result()
        finally:
            for attempt in running:
                attempt.cancel()

    def _add_tokens(self) -> None:
        with self._lock:
            self._tokens = min(BURST, self._tokens + self.settings.budget)

    def _take_token(self) -> bool:
        with self._lock:
            is_paid = self._tokens >= 1
            self._tokens -= is_paid
            return is_paid


async def _awaited(call: Awaitable[T]) -> T:
    """A call of grpc.aio is no coroutine; if this is cancelled, the call is."""
    return await call


def _result(attempt: Any) -> Any:
    """Of a future that ended; one that was cancelled, with its channel say, is its own error."""
    if attempt.code() is grpc.StatusCode.OK:
        return attempt.result()
    raise attempt


def _may_be_followed(error: BaseException | None) -> bool:
    """Whether an attempt failed in a way that another one need not."""
    return isinstance(error, grpc.RpcError) and error.code() in _OTHERS_MAY_ANSWER
