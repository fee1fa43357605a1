"""Calls that have arrived and that gRPC has not handed over yet."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import structlog

from farpoint_server.transport.grpc.handlers import Handler

try:
    from grpc._cython import cygrpc  # type: ignore[attr-defined]
except ImportError:  # it is gRPC's own, and need not be in each version
    cygrpc = None

# gRPC takes a fraction of a millisecond from call to call, on a busy machine some milliseconds.
CHECK_S, PATIENCE = 0.002, 25
log = structlog.get_logger("farpoint")


class Backlog(grpc.aio.ServerInterceptor):
    """Counts the calls of a server; the first of its interceptors.

    gRPC hands over one call at a time, first come first served, each a few rounds of the event loop
    after the one before. Its own counters (channelz) tell how many wait for that. A version of gRPC
    without them counts as one in which none wait.
    """

    def __init__(self) -> None:
        self._server: int | None = None
        self._accepted = self._ended = self._expected = 0
        self._act: Callable[[], None] | None = None

    def watch_newest_server(self) -> None:
        """Counts for the server that was made last in this process."""
        try:
            self._server = _newest_server()
            self.waiting()
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            self._server = None
            log.warning("calls that wait in gRPC cannot be counted", error=repr(error))

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        self._accepted += 1
        task = asyncio.current_task()
        if task is not None:
            task.add_done_callback(self._end)
        if self._act is not None and self._accepted >= self._expected:
            self._go_on()
        return await continuation(handler_call_details)

    def waiting(self) -> int:
        """Calls that wait to be handed over."""
        if self._server is None:
            return 0
        server: Any = json.loads(cygrpc.channelz_get_server(self._server))
        calls = server["server"]["data"]
        arrived, *ended = (
            int(calls.get(f"calls{which}", 0)) for which in ("Started", "Succeeded", "Failed")
        )
        return max(0, arrived - sum(ended) - (self._accepted - self._ended))

    def when_handed_over(self, count: int, act: Callable[[], None]) -> None:
        """Calls a function once so many more calls were handed over, or were given up by callers.

        One function at a time.
        """
        self._expected, self._act = self._accepted + count, act
        self._check(PATIENCE, self._accepted)

    def _end(self, _: object) -> None:
        self._ended += 1

    def _check(self, patience: int, seen: int) -> None:
        """Called by a timer while calls are expected."""
        if self._act is None:
            return
        if self._accepted == seen:
            self._expected = self._accepted + self.waiting()
            patience -= 1
        if self._accepted >= self._expected or not patience:
            self._go_on()
            return
        loop = asyncio.get_running_loop()
        loop.call_later(CHECK_S, self._check, patience, self._accepted)

    def _go_on(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            asyncio.get_running_loop().call_soon(act)


def _newest_server() -> int:
    first, newest, is_last = 0, 0, False
    while not is_last:
        page = json.loads(cygrpc.channelz_get_servers(first))
        for server in page["server"]:
            newest = int(server["ref"]["serverId"])
        first, is_last = newest + 1, page.get("end", True)
    return newest
