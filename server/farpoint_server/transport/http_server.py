"""HTTP server (uvicorn's HTTP/1.1 protocol) with bounds on connections, headers and time."""

import asyncio
import socket
import time

import h11
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from farpoint_server.config.addresses import split_host_port
from farpoint_server.errors import AddressUnavailableError
from farpoint_server.transport.sockets import reason_of

MAX_CONNECTIONS = 256
MAX_HEADER_BYTES = 1 << 14
# uvicorn bounds the silence after an answer; these bound what has begun and goes on too slowly.
HEADER_TIMEOUT_S = 5.0
TRANSFER_TIMEOUT_S = 60.0
SWEEP_S = 0.5
STOP_S = 1.0
# All that is read at a time is parsed at a time, and chunks of one byte take 10 us of the event
# loop each; asyncio reads thirty times as much unless told otherwise.
READ_BYTES = 1 << 13
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class HttpServer:
    """Serves an ASGI application on the event loop at hand.

    uvicorn's own server is left out: it handles signals and wakes up ten times a second.

    Args:
        flag: The setting of the address, for errors.
        address: HOST:PORT; port 0 takes a free one.

    Attributes:
        address: The same with the port that was taken.

    Raises:
        AddressUnavailableError: the address cannot be bound.
    """

    def __init__(self, flag: str, address: str) -> None:
        try:
            self._socket = _listen(*split_host_port(address))
        except (OSError, TypeError, ValueError) as error:
            raise AddressUnavailableError(
                f"{flag} {address}: cannot be bound: {reason_of(error)}"
            ) from error
        self.address = f"{address.rpartition(':')[0]}:{self._socket.getsockname()[1]}"
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.Task[None] | None = None

    async def start(self, app: ASGIApp) -> None:
        """Accepts connections from now on."""
        config = Config(
            app,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # a warning for each bad request would be the peer's to write
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        config.load()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: BoundedConnection(config, self._state, {}), sock=self._socket
        )
        self._sweep = asyncio.create_task(_close_late(self._state))

    async def stop(self) -> None:
        """Closes the port, waits STOP_S for answers under way, and closes every connection."""
        if self._server is None or self._sweep is None:
            self._socket.close()
            return
        self._server.close()
        self._sweep.cancel()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=STOP_S)
        for connection in list(self._state.connections):
            connection.transport.close()


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's that is one of at most MAX_CONNECTIONS and keeps to time limits.

    At the bound the connection that has waited longest for its request makes room, so that peers
    who say nothing keep nobody out; where all are at work, the new one gets 503.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._allowed_s: float | None = None
        self._since = time.monotonic()
        if len(self.connections) >= MAX_CONNECTIONS and not self._make_room():
            self.transport = transport
            transport.write(BUSY)
            transport.close()
            return
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(transport)

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        super().on_response_complete()

    def close_if_late(self, now: float) -> None:
        """Closes the connection if the peer takes too long with what is up to it."""
        allowed_s = self._allowance_s()
        if allowed_s != self._allowed_s:
            self._allowed_s, self._since = allowed_s, now
        elif allowed_s is not None and now - self._since > allowed_s:
            self.transport.abort()

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


async def _close_late(state: ServerState) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        now = time.monotonic()
        for connection in list(state.connections):
            if isinstance(connection, BoundedConnection):
                connection.close_if_late(now)


def _listen(host: str, port: int) -> socket.socket:
    if ":" not in host:
        return socket.create_server((host, port))
    dual = socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=dual)
