"""The gRPC server object and the addresses it is bound to."""

from collections.abc import Iterable, Sequence

import grpc

from farpoint_server.config.addresses import is_unix
from farpoint_server.config.settings import Settings
from farpoint_server.errors import AddressUnavailableError


def make_server(
    settings: Settings, interceptors: Sequence[grpc.aio.ServerInterceptor]
) -> grpc.aio.Server:
    """A server with our limits, without services and addresses as yet."""
    return grpc.aio.server(
        interceptors=interceptors,
        maximum_concurrent_rpcs=settings.max_concurrent_rpcs,
        options=(
            # Twice the limit arrives, so that a message just above it is refused in our words.
            ("grpc.max_receive_message_length", 2 * settings.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", settings.max_streams),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            # Two servers on one port would share its calls at random; let the second one fail.
            ("grpc.so_reuseport", 0),
            # Finds out about a caller whose machine or network is gone while its call is open.
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # Clients behind load balancers ping often, also without a call, and may.
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.http2.max_ping_strikes", 0),
        ),
    )


def listen(
    server: grpc.aio.Server,
    addresses: Iterable[str],
    credentials: grpc.ServerCredentials | None = None,
) -> list[str]:
    """Binds every address; returns them with the ports that were taken.

    Args:
        server: Not started yet.
        addresses: HOST:PORT or unix:PATH.
        credentials: For TLS on every HOST:PORT; None is plain text.

    Raises:
        AddressUnavailableError: one is in use, not ours, or not allowed.
    """
    return [_bind(server, address, credentials) for address in addresses]


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> str:
    try:
        if credentials is None or is_unix(address):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise AddressUnavailableError(
            f"--listen {address}: cannot be bound; is it in use?"
        ) from error
    return address if is_unix(address) else f"{address.rpartition(':')[0]}:{port}"
