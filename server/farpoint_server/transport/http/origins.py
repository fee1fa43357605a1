"""ASGI middleware against other people's web pages: CORS, and the Host header on loopback."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from farpoint_server.config.addresses import is_local
from farpoint_server.errors import quoted
from farpoint_server.transport.http.exchange import Answer, send_all

ANY = "*"
ASKED = (
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-encoding",
    "content-type",
    "inference-header-content-length",
    "x-request-id",
)
TOLD = ("inference-header-content-length", "x-request-id")


def guard(app: ASGIApp, address: str, origins: Sequence[str]) -> ASGIApp:
    """The application with these rules.

    Args:
        app: What answers.
        address: HOST:PORT that it listens on.
        origins: Whose pages may call it, "https://host" each, or "*" for all; its own may anyway.
    """
    if origins:
        app = CORSMiddleware(
            app, origins, allow_methods=("GET", "POST"), allow_headers=ASKED, expose_headers=TOLD
        )
    if not is_local(address) or ANY in origins:
        return app
    return HostCheck(app, [urlsplit(origin).hostname or "" for origin in origins])


class HostCheck:
    """Answers requests to this machine by its usual names alone.

    A page of somebody else's whose name leads to 127.0.0.1 a moment later (DNS rebinding) is of
    the same origin as the server, as its browser sees it. Only the Host header tells.

    Args:
        app: What answers.
        names: Further names, in lower case, as of a proxy that passes on what it was asked for.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app = app
        self._names = {"localhost", *names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "localhost")
        if self._knows(_name_of(host)):
            await self._app(scope, receive, send)
            return
        text = f"this server does not answer for the host {quoted(host)}; see --http-origins\n"
        headers = (("content-type", "text/plain; charset=utf-8"),)
        await send_all(send, Answer(421, headers, text.encode()))

    def _knows(self, name: str) -> bool:
        try:
            ip_address(name)
        except ValueError:
            return name in self._names or name.endswith(".localhost")
        return True


def _name_of(host: str) -> str:
    """A Host header without its port, in lower case; empty for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.netloc != host or "@" in host else parts.hostname or ""
    except ValueError:
        return ""
