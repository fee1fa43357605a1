"""The gRPC servers of a process, public and administrative, and their addresses."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import structlog

from farpoint_server.config.network import is_unix, split_host_port
from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.grpc.accepting import Acceptors
from farpoint_server.transport.sockets import claim_unix, reason_of
from farpoint_server.transport.tls import tls_files

# Coordinates compress badly, and a small message may then take much memory (docs/decisions/0012).
# Bit 0 is "identity" and cannot be cleared. Switching decompression itself off does not: gRPC then
# unpacks where the message is read.
NO_COMPRESSION = ("grpc.compression_enabled_algorithms_bitset", 1)
# Calls that the event loop has not begun. Each holds its headers and the unrequested begin of its
# message: 64 KiB at most, some 8 KiB as a rule.
MAX_PENDING = 1 << 15
# Of one connection; others wait in the client.
MAX_STREAMS = 1024
NO_END_S = 1e9
log = structlog.get_logger("farpoint")


class Addresses(NamedTuple):
    """The bound addresses, with their real ports."""

    public: Sequence[str]
    admin: Sequence[str]


class GrpcServers:
    """Two servers with the same limits and TLS files.

    Attributes:
        public: Serves `listen`.
        admin: Serves `admin_listen`: the public one if all its addresses are in `listen`, None
            if there are none but that of HTTP.
        interceptor: Of both.
        acceptors: Of the public one's calls.
        tls: Files of TLS; None for plain text.

    Args:
        settings: The server's.
        interceptor: Of both.
        is_first: Whether this is the first of several processes, or the only one.

    Raises:
        StartError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        interceptor: grpc.aio.ServerInterceptor,
        *,
        is_first: bool = True,
    ) -> None:
        self._settings = settings
        self.tls = tls_files(settings)
        self.interceptor = interceptor
        self.public = _make_server(settings, interceptor)
        self.acceptors = Acceptors(self.public, interceptor)
        self.admin: grpc.aio.Server | None = None
        # That of HTTP is not bound here, unless gRPC's has the same name, as 127.0.0.1:0 may be.
        # A unix socket has one process, which answers for all.
        self._admin_listen = [
            address
            for address in settings.admin_listen
            if (address in settings.listen or address != settings.http_listen)
            and (is_first or not is_unix(address))
        ]
        if self._admin_listen:
            shared = set(self._admin_listen) <= set(settings.listen)
            self.admin = self.public if shared else _make_server(settings, interceptor)

    def bind(self) -> Addresses:
        """Binds every address of the settings.

        Raises:
            StartError: one is in use, not ours, or not allowed.
        """
        named, admin = self._settings.listen, self._admin_listen
        public = [self._bind(self.public, "--listen", address) for address in named]
        if self.admin is None:
            return Addresses(public, ())
        if self.admin is self.public:
            pairs = zip(named, public, strict=True)
            return Addresses(public, [bound for name, bound in pairs if name in admin])
        return Addresses(public, [self._bind(self.admin, "--admin-listen", a) for a in admin])

    async def start(self) -> None:
        """Starts to accept connections."""
        if (missing := self._settings.unguarded()) is not None:
            log.warning("listening beyond loopback without TLS or tokens", **missing)
        for server in self._servers:
            await server.start()
        self.acceptors.start()

    def leave(self) -> None:
        """Accepts no more connections and tells each caller to leave its own.

        gRPC cancels calls that reach it after that, and answers those before until `stop`.
        """
        # Without an end: at the end of a grace, gRPC cancels calls also of a server that another
        # `stop` has just destroyed, and the process with them (SIGSEGV).
        self._leaving = asyncio.ensure_future(self.stop(NO_END_S))

    async def stop(self, grace_s: float) -> None:
        """Closes every connection; calls that are not answered in time are cancelled."""
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))

    @property
    def _servers(self) -> Sequence[grpc.aio.Server]:
        return [*dict.fromkeys(filter(None, (self.public, self.admin)))]

    def _bind(self, server: grpc.aio.Server, flag: str, address: str) -> str:
        """Binds an address in plain text or, if it is HOST:PORT, with TLS."""
        try:
            if is_unix(address):
                # gRPC would remove the socket of a server that listens there.
                with claim_unix(address.removeprefix("unix:")):
                    server.add_insecure_port(address)
                return address
            if self.tls is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self.tls.make_credentials())
        except (OSError, RuntimeError) as error:
            why = reason_of(error) if isinstance(error, OSError) else _why_not(address)
            raise StartError(f"{flag} {address}: cannot be bound: {why}") from error
        return f"{address.rpartition(':')[0]}:{port}"


def _why_not(address: str) -> str:
    """Why an address cannot be bound, found with a plain socket, because gRPC hides it."""
    try:
        if is_unix(address):
            found: list[Any] = [(socket.AF_UNIX, 0, address.removeprefix("unix:"))]
        else:
            host, port = split_host_port(address)
            names = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            found = [(family, protocol, place) for family, _, protocol, _, place in names]
        for family, protocol, place in found:
            with socket.socket(family, socket.SOCK_STREAM, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
    except OSError as error:
        return reason_of(error)
    return "gRPC refused it"


def _make_server(settings: Settings, interceptor: grpc.aio.ServerInterceptor) -> grpc.aio.Server:
    """A gRPC server with our limits, without services and addresses."""
    age_s = settings.max_connection_age_s
    age = () if age_s is None else (("grpc.max_connection_age_ms", round(age_s * 1e3)),)
    return grpc.aio.server(
        interceptors=(interceptor,),
        # limits.py bounds open calls: gRPC's own refusal has no time to retry and no metric.
        options=(
            # By default gRPC cancels some calls beyond 1 000, and all beyond 3 000, of any caller.
            ("grpc.server.max_pending_requests", MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
            # Twice the limit arrives, so that a message just above it is refused in our words.
            ("grpc.max_receive_message_length", 2 * settings.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            NO_COMPRESSION,
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            # Of two servers on one port the second one fails; processes of one server share it.
            ("grpc.so_reuseport", int(settings.process_count > 1)),
            # A connection that is silent at its begin, and one without a call for long.
            ("grpc.server_handshake_timeout_ms", round(settings.handshake_timeout_s * 1e3)),
            ("grpc.max_connection_idle_ms", round(settings.idle_timeout_s * 1e3)),
            # gRPC spreads the age by a tenth to both sides, and tells the client to leave first.
            *age,
            # Finds out about a caller whose machine or network is gone while its call is open.
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # Clients behind load balancers ping often, also without a call, and may; ten pings each
            # within a second of the last, with no answer sent between them, end the connection.
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
            ("grpc.http2.max_ping_strikes", 10),
        ),
    )
