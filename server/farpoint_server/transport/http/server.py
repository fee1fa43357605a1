"""The HTTP port of a server: metrics, unary RPCs and the page; the sweep of late connections."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from farpoint_server.config.network import split_host_port
from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.grpc.server import GrpcServers
from farpoint_server.transport.http.calls import UnaryCalls
from farpoint_server.transport.http.connect import ConnectApp
from farpoint_server.transport.http.connection import WRITE_BUFFER_BYTES, BoundedConnection
from farpoint_server.transport.http.exchange import BodyLimits, Exchange
from farpoint_server.transport.http.origins import guard
from farpoint_server.transport.http.page import make_page
from farpoint_server.transport.sockets import drop_new_connections, reason_of

SWEEP_S = 0.5
# Between looks at connections that have time to send a request or to read an answer.
LEAVE_S, STOP_S = 0.01, 1.0


class HttpServer:
    """Serves an ASGI application on the running event loop.

    uvicorn's own server is left out: it handles signals and wakes up ten times a second.

    Args:
        flag: The setting of the address, for errors.
        address: HOST:PORT, where port 0 takes a free one; None for no server at all.
        tls: The context of each new connection; None for plain HTTP.
        shared: Whether other processes of this server listen there too.
        max_connections: With one more, another one is closed or the new one is refused.

    Attributes:
        address: The same with the port that was taken.
        state: Connections, and the tasks of requests.

    Raises:
        StartError: the address cannot be bound.
    """

    def __init__(
        self,
        flag: str,
        address: str | None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        *,
        shared: bool = False,
        max_connections: int = 256,
    ) -> None:
        self.address, self._tls, self._max_connections = address, tls, max_connections
        self._socket: socket.socket | None = None
        self.state = ServerState()
        self._server: asyncio.Server | None = None
        self._connect: Callable[[], BoundedConnection] | None = None
        self._made: set[asyncio.Future[Any]] = set()
        self._sweep: asyncio.Task[None] | None = None
        if address is None:
            return
        try:
            self._socket = _listen(*split_host_port(address), shared)
        except (OSError, ValueError) as error:
            raise StartError(f"{flag} {address}: cannot be bound: {reason_of(error)}") from error
        self.address = f"{address.rpartition(':')[0]}:{self._socket.getsockname()[1]}"

    @property
    def url(self) -> str | None:
        """URL for a browser on this machine."""
        if self.address is None:
            return None
        host, port = split_host_port(self.address)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"

    async def start(self, app: ASGIApp) -> None:
        """Starts to accept connections."""
        if self._socket is None:
            return
        config = Config(
            app,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # a peer could write a warning for each bad request
            access_log=False,
            proxy_headers=False,
        )
        config.load()
        self._connect = partial(
            BoundedConnection, config, self.state, self._max_connections, self._tls
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, sock=self._socket)
        self._sweep = asyncio.create_task(_close_late(self.state))

    def close_after_answers(self) -> None:
        """Ends each connection with its next answer."""
        self.state.default_headers.append((b"connection", b"close"))

    def close_port(self) -> None:
        """Accepts no more connections than have been made."""
        if self._server is None or self._socket is None or self._connect is None:
            return
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # there is none, or the port is closed
            drop_new_connections(self._socket)
            while True:  # the kernel would reset those that wait to be accepted
                made = loop.connect_accepted_socket(self._connect, self._socket.accept()[0])
                self._made.add(task := asyncio.ensure_future(made))
                task.add_done_callback(self._made.discard)
        self._server.close()

    async def leave(self, grace_s: float = STOP_S) -> None:
        """Closes the port, and each connection after its answer or if none is due.

        Returns when no connection is left, after `grace_s` at the latest.
        """
        self.close_port()
        end = time.monotonic() + grace_s
        while (self._made or self.state.connections) and (now := time.monotonic()) < end:
            for connection in _bounded(self.state):
                connection.leave(now)
            await asyncio.sleep(LEAVE_S)

    async def stop(self, grace_s: float = STOP_S) -> None:
        """Leaves, then closes every connection."""
        if self._sweep is not None:
            await self.leave(grace_s)
            self._sweep.cancel()
            for connection in list(self.state.connections):
                connection.transport.close()
        elif self._socket is not None:
            self._socket.close()


async def _close_late(state: ServerState) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        now = time.monotonic()
        for connection in _bounded(state):
            connection.close_if_late(now)


def _bounded(state: ServerState) -> Sequence[BoundedConnection]:
    return [one for one in state.connections if isinstance(one, BoundedConnection)]


def _listen(host: str, port: int, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listening.bind((host, port))
        if not shared:  # else when this process can answer: until then the others get connections
            listening.listen()
    except OSError:
        listening.close()
        raise
    # Connections inherit these. asyncio sets the first only on sockets that name their protocol,
    # which these do not; headers and body would be 40 ms apart.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # Without it the kernel takes megabytes for a peer that does not read, which count as sent.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, WRITE_BUFFER_BYTES)
    return listening


class HttpPort(HttpServer):
    """Serves `http_listen` under the same limits as the gRPC servers.

    Args:
        settings: The server's.
        servers: Whose interceptor and files of TLS are used.
        limits: Of the bodies of calls.

    Attributes:
        exchange: Runs calls of the servicers that register at its `calls`.
        page: Files for browsers; None without any.

    Raises:
        StartError: the address cannot be bound.
    """

    def __init__(self, settings: Settings, servers: GrpcServers, limits: BodyLimits) -> None:
        tls = servers.tls
        super().__init__(
            "--http-listen",
            settings.http_listen,
            None if tls is None else tls.http_context,
            shared=settings.process_count > 1,
        )
        needs_certificate = tls is not None and tls.requires_client
        self.exchange = Exchange(UnaryCalls(servers.interceptor), limits, needs_certificate)
        self.page = make_page()
        self._origins = settings.http_origins

    async def serve(
        self, routes: Sequence[BaseRoute], services: Iterable[ServiceDescriptor]
    ) -> None:
        """Starts to answer.

        Args:
            routes: Of requests that are no RPC.
            services: Those that may be called, if they are registered.
        """
        if self.address is not None:
            app = make_app(routes, ConnectApp(self.exchange, services), self.page)
            await self.start(guard(app, self.address, self._origins))


def make_app(routes: Sequence[BaseRoute], connect: ASGIApp, page: ASGIApp | None) -> ASGIApp:
    """An application of routes; other requests are an RPC if they are POST, or else a file."""
    files = page or PlainTextResponse("Not Found", 404)

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["method"] in ("GET", "HEAD")
        await (files if is_file else connect)(scope, receive, send)

    app = Starlette(routes=routes)
    app.router.default = default
    app.router.redirect_slashes = False
    return app
