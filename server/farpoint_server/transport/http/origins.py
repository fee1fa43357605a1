"""ASGI middleware against other web pages: CORS, and checks of Host and Origin."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from farpoint_server.config.network import is_local
from farpoint_server.errors import quoted
from farpoint_server.transport.http.exchange import HttpResponse, send_all

ANY = "*"
ALLOWED = (
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-type",
    "inference-header-content-length",
    "x-request-id",
)
EXPOSED = ("inference-header-content-length", "x-request-id")
# Sent by a browser without asking first, and changes nothing.
HARMLESS = ("GET", "HEAD", "OPTIONS")


def guard(app: ASGIApp, address: str, origins: Sequence[str]) -> ASGIApp:
    """The application at HOST:PORT, open to pages of "https://host" or "*" and to its own."""
    if ANY not in origins:
        app = PageCheck(app, is_local(address), [origin.lower() for origin in origins])
    if not origins:
        return app
    return CORSMiddleware(
        app, origins, allow_methods=("GET", "POST"), allow_headers=ALLOWED, expose_headers=EXPOSED
    )


class PageCheck:
    """Refuses requests that a browser sent for another web page.

    A POST from another origin is one: CORS alone would keep the page from reading the answer but
    not from having the work done. On loopback so is a request for a name that is not of this
    machine: a page whose name leads to 127.0.0.1 a moment later (DNS rebinding) is of the server's
    own origin for its browser.
    """

    def __init__(self, app: ASGIApp, local: bool, origins: Sequence[str]) -> None:
        self._app = app
        self._local = local
        self._origins = origins
        self._names = {"localhost", *(urlsplit(origin).hostname for origin in origins)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "localhost"), headers.get("origin")
        if self._local and not self._is_ours(_name_of(host)):
            await _refuse(send, 421, f"this server does not answer for the host {quoted(host)}")
        elif scope["method"] not in HARMLESS and not self._may_call(origin, host):
            await _refuse(send, 403, f"pages of {quoted(origin or '')} may not call this server")
        else:
            await self._app(scope, receive, send)

    def _is_ours(self, name: str) -> bool:
        try:
            ip_address(name)
        except ValueError:
            return name in self._names or name.endswith(".localhost")
        return "%" not in name  # a zone may be any text, and no browser sends one

    def _may_call(self, origin: str | None, host: str) -> bool:
        """Whether an origin is allowed; programs send none, the server's page that of the host."""
        if origin is None or origin.lower() in self._origins:
            return True
        return origin.lower().partition("://")[2] == host.lower()


async def _refuse(send: Send, status: int, why: str) -> None:
    headers = (("content-type", "text/plain; charset=utf-8"),)
    await send_all(send, HttpResponse(status, headers, f"{why}; see --http-origins\n".encode()))


def _name_of(host: str) -> str:
    """A Host header without its port, in lower case; empty if invalid."""
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.netloc != host or "@" in host else parts.hostname or ""
    except ValueError:
        return ""
