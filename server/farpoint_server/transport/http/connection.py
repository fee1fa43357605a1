"""HTTP/1.1 connection (uvicorn's h11 protocol) with bounds on number, headers, time and TLS."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

MAX_HEADER_BYTES = 1 << 14
# uvicorn bounds the silence after an answer; these bound what has begun and goes on too slowly.
HEADER_TIMEOUT_S = 5.0
TRANSFER_TIMEOUT_S = 60.0
# Two megabits per second: what moves as fast may go on.
BYTES_PER_S = 1 << 18
# What is parsed before the event loop has its turn: chunks of one byte take 10 us each.
MAX_EVENTS = 500
# Of asyncio's transports, which say "write on" below a quarter of it.
WRITE_BUFFER_BYTES = 1 << 16
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's that is one of a number and keeps to time limits.

    At the bound the connection that has waited longest for its request makes room, so that peers
    who say nothing keep nobody out; where all are at work, the new one gets 503. It counts before
    its handshake of TLS.

    Args:
        config: Of uvicorn.
        state: Of all connections.
        most: Connections.
        tls: The context of a new connection; None for plain HTTP.
    """

    def __init__(
        self,
        config: Config,
        state: ServerState,
        most: int,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        super().__init__(config, state, {})
        self.conn: _RationedParser = _RationedParser(MAX_HEADER_BYTES)
        self._most = most
        self._tls = tls
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""
        self._allowed_s: float | None = None
        self._since = time.monotonic()
        self._moved = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self._most and not self._make_room():
            self.transport = transport
            if self._tls is None:
                transport.write(BUSY)
            transport.close()
            return
        if self._tls is None:
            super().connection_made(transport)
            return
        self.transport = transport
        self.connections.add(self)
        transport.pause_reading()
        self._handshake = asyncio.ensure_future(self._start_tls(transport, self._tls()))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.flow is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.flow is None:  # old versions of asyncio are ahead of their own start_tls
            self._early += data
            return
        self._moved += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        self._moved += WRITE_BUFFER_BYTES
        super().resume_writing()

    def handle_events(self) -> None:
        self.conn.left = MAX_EVENTS
        super().handle_events()
        if self.conn.left < 0 and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_soon(self._go_on)

    def on_response_complete(self) -> None:
        self._since, self._moved = time.monotonic(), 0
        super().on_response_complete()

    def close_if_late(self, now: float) -> None:
        """Closes the connection if the peer takes too long with what is up to it."""
        allowed_s = self._allowance_s()
        if allowed_s != self._allowed_s:
            self._allowed_s, self._since, self._moved = allowed_s, now, 0
        elif allowed_s is not None and now - self._since > allowed_s + self._moved / BYTES_PER_S:
            self.transport.abort()

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(transport, self, context, server_side=True)
        except (OSError, asyncio.TimeoutError):
            secured = None
        if secured is None:
            self.connections.discard(self)
            transport.abort()
            return
        # As the application sees it: whether a caller has shown a certificate that we know.
        shown: Any = secured.get_extra_info("peercert")
        self.app_state = {"has_certificate": bool(shown)}
        super().connection_made(secured)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _make_room(self) -> bool:
        silent = [
            one
            for one in self.connections
            if isinstance(one, BoundedConnection) and one._awaits_request()
        ]
        if not silent:
            return False
        oldest = min(silent, key=lambda one: one._since)
        self.connections.discard(oldest)  # it would be lost only in the loop's next turn
        oldest.transport.abort()
        return True

    def _awaits_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _allowance_s(self) -> float | None:
        """Seconds for what the peer is to do now; None while the application is at work."""
        if self._awaits_request():
            return HEADER_TIMEOUT_S
        is_sending = self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused
        return TRANSFER_TIMEOUT_S if is_sending or self.flow.write_paused else None


class _RationedParser(h11.Connection):
    """A parser that has no more events once `left` are used up, and says so by a negative one."""

    def __init__(self, max_header_bytes: int) -> None:
        super().__init__(h11.SERVER, max_header_bytes)
        self.left = 0

    def next_event(self) -> Any:
        self.left -= 1
        return h11.NEED_DATA if self.left < 0 else super().next_event()
