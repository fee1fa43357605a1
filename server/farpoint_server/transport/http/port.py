"""The HTTP port of a server: metrics, unary RPCs and the page."""

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
from farpoint_server.transport.http.server import HttpServer
from farpoint_server.transport.server import GrpcServers


class HttpPort(HttpServer):
    """Answers `http_listen` as the gRPC servers do, under the same limits.

    Args:
        settings: The server's.
        servers: Whose interceptors and files of TLS are used.
        limits: Of the bodies of calls.

    Attributes:
        exchange: Runs calls of the servicers that register at its `calls`.
        page: Files for browsers.

    Raises:
        AddressUnavailableError: the address cannot be bound.
    """

    def __init__(self, settings: Settings, servers: GrpcServers, limits: BodyLimits) -> None:
        tls = servers.tls
        super().__init__(
            "--http-listen",
            settings.http_listen,
            None if tls is None else tls.http_context,
            shared=settings.process_count > 1,
            max_connections=settings.max_http_connections,
        )
        needs_certificate = tls is not None and tls.requires_client
        self.exchange = Exchange(UnaryCalls(servers.interceptors), limits, needs_certificate)
        self.page = PageApp()
        self._origins = settings.http_origins

    async def serve(
        self, routes: Sequence[BaseRoute], services: Iterable[ServiceDescriptor]
    ) -> None:
        """Begins to answer.

        Args:
            routes: Of requests that are no RPC.
            services: Those that may be called, if they are registered.
        """
        if self.address is not None:
            app = make_app(routes, ConnectApp(self.exchange, services), self.page)
            await self.start(guard(app, self.address, self._origins))


def make_app(routes: Sequence[BaseRoute], connect: ASGIApp, page: ASGIApp) -> ASGIApp:
    """An application of routes; other requests are an RPC if they are POST, or else a file."""

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["method"] in ("GET", "HEAD")
        await (page if is_file else connect)(scope, receive, send)

    app = Starlette(routes=routes)
    app.router.default = default
    app.router.redirect_slashes = False
    return app
