"""HTTP server of /metrics (Prometheus) and /healthz, on threads of its own."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from farpoint_server.errors import AddressUnavailableError

# A peer that connects and says nothing, or does not read, holds a thread for so long.
TIMEOUT_S = 5.0


class HttpEndpoint:
    """Answers GET of /metrics and /healthz; everything else is not found.

    Args:
        address: HOST:PORT; port 0 takes a free one.
        registry: What /metrics shows.
        is_serving: Whether /healthz says 200 or 503; called on any thread.

    Raises:
        AddressUnavailableError: the address cannot be bound.
    """

    def __init__(
        self, address: str, registry: CollectorRegistry, is_serving: Callable[[], bool]
    ) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server(host.strip("[]"), int(port), registry, is_serving)
        except OSError as error:
            raise AddressUnavailableError(
                f"--http-listen {address}: cannot be bound: {error.strerror}"
            ) from error
        self.address = f"{host}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serves from now on."""
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    def stop(self) -> None:
        """Closes the port; `start` must have been called."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        is_serving: Callable[[], bool],
    ) -> None:
        self.registry = registry
        self.is_serving = is_serving
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A peer that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT_S
    server_version = "farpoint"
    sys_version = ""

    def do_GET(self) -> None:
        server = cast(_Server, self.server)
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(server.registry))
        elif path == "/healthz" and server.is_serving():
            self._answer(200, "text/plain", b"SERVING\n")
        elif path == "/healthz":
            self._answer(503, "text/plain", b"NOT_SERVING\n")
        else:
            self._answer(404, "text/plain", b"only /metrics and /healthz are here\n")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Scrapes are not logged."""

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
