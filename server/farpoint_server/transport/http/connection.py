"""HTTP/1.1 connection (uvicorn's h11 protocol) with bounds on number, headers, time and TLS."""

import asyncio
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

MAX_HEADER_BYTES = 1 << 14
# Between an answer and the next request: longer than proxies keep connections, mostly 60 s, since
# the first request on one that is just being closed is lost.
KEEP_ALIVE_S = 75
HEADER_TIMEOUT_S = 5.0
# For the next request, when the server stops.
REQUEST_S = 0.5
TRANSFER_TIMEOUT_S = 60.0
# Two megabits per second: a faster transfer may go on.
BYTES_PER_S = 1 << 18
# Parsed before the event loop has its turn: chunks of one byte take 10 us each.
MAX_EVENTS = 500
# Of asyncio's transports, which say "write on" below a quarter of it.
WRITE_BUFFER_BYTES = 1 << 16
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# Lines that a proxy may read otherwise than h11: bare LF, folded headers.
AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")
FRAMING = re.compile(rb"\n(content-length|transfer-encoding)[ \t]*:([^\r\n]*)", re.IGNORECASE)


class BoundedConnection(H11Protocol):
    """A uvicorn connection with limits of number and time.

    At the bound another connection is closed for a new one, see `_make_room`; where none can be,
    the new one gets 503. A connection counts before its handshake of TLS.

    Args:
        config: Of uvicorn.
        state: Of all connections.
        most: Open connections at a time.
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
        self.timeout_keep_alive = KEEP_ALIVE_S
        self.conn: _StrictParser = _StrictParser()
        self._most = most
        self._tls = tls
        self._host = ""
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""
        self._allowed_s: float | None = None
        self._since = time.monotonic()
        self._moved = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._host = (transport.get_extra_info("peername") or ("",))[0]
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

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:  # its application may not answer as well
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer is on its way
            self.transport.close()

    def on_response_complete(self) -> None:
        self._since, self._moved = time.monotonic(), 0
        super().on_response_complete()

    def close_if_late(self, now: float) -> None:
        """Closes the connection if the peer exceeds its time limit."""
        allowed_s = self._allowance_s()
        if allowed_s != self._allowed_s:
            self._allowed_s, self._since, self._moved = allowed_s, now, 0
        elif allowed_s is not None and self._is_late(now, allowed_s):
            self.transport.abort()

    def leave(self, now: float) -> None:
        """Closes the connection with its answer, or if it has been without a request for a while.

        A caller whose request meets the close cannot know whether it may repeat it.
        """
        if not self.transport.is_closing() and (
            not self._awaits_request() or self._is_late(now, REQUEST_S)
        ):
            self.shutdown()

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
        # For the application: whether a caller has shown a certificate that we know.
        shown: Any = secured.get_extra_info("peercert")
        self.app_state = {"has_certificate": bool(shown)}
        super().connection_made(secured)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _make_room(self) -> bool:
        """Closes the oldest connection without a request, so that silent peers do not block others.

        Without one, the oldest that waits for its peer: at once if the peer's address holds more
        than half of all connections and the new one is of another address, else if it is late by
        the short limit.
        """
        others = [one for one in self.connections if isinstance(one, BoundedConnection)]
        found = [one for one in others if one._awaits_request()]
        if not found:
            held, now = Counter(one._host for one in others), time.monotonic()
            found = [
                one
                for one in others
                if one._allowance_s() is not None
                and (
                    one._is_late(now, HEADER_TIMEOUT_S)
                    or (one._host != self._host and held[one._host] > self._most // 2)
                )
            ]
        if not found:
            return False
        oldest = min(found, key=lambda one: one._since)
        self.connections.discard(oldest)  # it would be lost only in the loop's next turn
        oldest.transport.abort()
        return True

    def _is_late(self, now: float, allowed_s: float) -> bool:
        return now - self._since > allowed_s + self._moved / BYTES_PER_S

    def _awaits_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _allowance_s(self) -> float | None:
        """Seconds that the peer has; None while the application works or the connection is idle."""
        if self._awaits_request():
            was_read = self.cycle is not None and not self.transport.get_write_buffer_size()
            return None if was_read and not self.conn.trailing_data[0] else HEADER_TIMEOUT_S
        is_sending = self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused
        return TRANSFER_TIMEOUT_S if is_sending or self.flow.write_paused else None


class _StrictParser(h11.Connection):
    """A parser of at most `left` events that refuses ambiguous requests.

    `left` is negative once there would be more.

    It gets its data in pieces, so that h11's bound of headers is also one of the lines of chunks.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEADER_BYTES)
        self.left = 0
        self._waiting = bytearray()

    def receive_data(self, data: bytes) -> None:
        self._waiting += data

    def next_event(self) -> Any:
        self.left -= 1
        if self.left < 0:
            return h11.NEED_DATA
        while True:
            head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_head(bytes(head))
            if event is not h11.NEED_DATA or not self._waiting:
                return event
            super().receive_data(bytes(self._waiting[:MAX_HEADER_BYTES]))
            del self._waiting[:MAX_HEADER_BYTES]


def _check_head(data: bytes) -> None:
    """Refuses a request with an ambiguous end (RFC 9112, 6.1)."""
    head, end, _ = data.partition(b"\r\n\r\n")
    framing = FRAMING.findall(head)
    if not end or AMBIGUOUS.search(head) or len(framing) > 1 or any(b"," in v for _, v in framing):
        raise h11.RemoteProtocolError("ambiguous framing")
