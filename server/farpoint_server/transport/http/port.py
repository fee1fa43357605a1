"""The HTTP ports of a server: that of metrics, unary RPCs and the page, and that of probes."""

from collections.abc import Iterable, Sequence

from google.protobuf.descriptor import ServiceDescriptor
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from farpoint_server.config.settings import Settings
from farpoint_server.transport.http.body import BodyLimits
from farpoint_server.transport.http.calls import UnaryCalls
from farpoint_server.transport.http.connect import ConnectApp
from farpoint_server.transport.http.exchange import Exchange
from farpoint_server.transport.http.origins import guard
from farpoint_server.transport.http.page import PageApp
from farpoint_server.transport.http.server import STOP_S, HttpServer
from farpoint_server.transport.server import GrpcServers


class HttpPort:
    """Answers `http_listen` with what the gRPC servers answer, under the same limits.

    Args:
        settings: The server's.
        servers: Whose interceptors and files of TLS are used.
        limits: Of the bodies of calls.

    Attributes:
        exchange: Runs calls of the servicers that register at its `calls`.

    Raises:
        AddressUnavailableError: the address cannot be bound.
    """

    def __init__(self, settings: Settings, servers: GrpcServers, limits: BodyLimits) -> None:
        tls = servers.tls
        needs_certificate = tls is not None and tls.requires_client
        self.exchange = Exchange(UnaryCalls(servers.interceptors), limits, needs_certificate)
        self._settings = settings
        self._page = PageApp()
        self._server: HttpServer | None = None
        if settings.http_listen is not None:
            context = None if tls is None else tls.http_context
            self._server = HttpServer(
                "--http-listen",
                settings.http_listen,
                context,
                max_connections=settings.max_http_connections,
                shared=settings.process_count > 1,
            )

    @property
    def address(self) -> str | None:
        """HOST:PORT with the port that was taken; None without `http_listen`."""
        return None if self._server is None else self._server.address

    @property
    def url(self) -> str | None:
        """Of the page, for a browser on this machine; None without one."""
        return self._server.url if self._server is not None and self._page.is_there else None

    async def start(
        self, routes: Sequence[BaseRoute], services: Iterable[ServiceDescriptor]
    ) -> None:
        """Answers from now on.

        Args:
            routes: Of what is no RPC.
            services: Those that may be called, if they are registered.
        """
        if self._server is None:
            return
        app = make_app(routes, ConnectApp(self.exchange, services), self._page)
        await self._server.start(guard(app, self._server.address, self._settings.http_origins))

    async def stop(self, grace_s: float = STOP_S) -> None:
        """Closes every connection; answers under way have so many seconds."""
        if self._server is not None:
            await self._server.stop(grace_s)


class ProbePort:
    """Answers `probe_listen` in plain text, whatever the others speak, with health alone.

    Args:
        settings: The server's.

    Raises:
        AddressUnavailableError: the address cannot be bound.
    """

    def __init__(self, settings: Settings) -> None:
        self._server: HttpServer | None = None
        if settings.probe_listen is not None:
            shared = settings.process_count > 1
            self._server = HttpServer("--probe-listen", settings.probe_listen, shared=shared)

    @property
    def address(self) -> str | None:
        """HOST:PORT with the port that was taken; None without one."""
        return None if self._server is None else self._server.address

    async def start(self, routes: Sequence[BaseRoute]) -> None:
        """Answers from now on; paths that are no route are 404."""
        if self._server is not None:
            await self._server.start(Starlette(routes=routes))

    async def stop(self) -> None:
        """Closes every connection."""
        if self._server is not None:
            await self._server.stop()


def make_app(routes: Sequence[BaseRoute], connect: ASGIApp, page: ASGIApp) -> ASGIApp:
    """What answers a request: a route, or else an RPC if it is POST, or else a file."""

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["method"] in ("GET", "HEAD")
        await (page if is_file else connect)(scope, receive, send)

    app = Starlette(routes=routes)
    app.router.default = default
    app.router.redirect_slashes = False
    return app
