"""Closes the TCP connection of a gRPC peer, which grpc.aio cannot.

An answered call cannot be cancelled, and its answer stays in memory while the peer keeps its HTTP/2
window closed. So the socket is looked up among the descriptors of this process and shut down.
"""

import ipaddress
import os
import socket
from urllib.parse import unquote

DESCRIPTORS = "/proc/self/fd"


def close_connection(peer: str) -> bool:
    """Shuts the connection of `context.peer()` down; whether it was found.

    Connections of unix sockets have no names, and only Linux lists descriptors: there it is False.
    """
    wanted = parse_peer(peer)
    if wanted is None or not os.path.isdir(DESCRIPTORS):
        return False
    return any(_close_if(int(name), wanted) for name in os.listdir(DESCRIPTORS))


def parse_peer(peer: str) -> tuple[str, int] | None:
    """Host and port of "ipv4:HOST:PORT" or "ipv6:[HOST]:PORT"; None of other peers."""
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdigit():
        return None
    return _plain(host.strip("[]")), int(port)


def _close_if(descriptor: int, wanted: tuple[str, int]) -> bool:
    """Shuts a descriptor down if it is a connection to the wanted peer.

    It is duplicated first: a number that is closed meanwhile may be another file's a moment later.
    """
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return False
            host, port = connection.getpeername()[:2]
            if (_plain(host), port) != wanted:
                return False
            connection.shutdown(socket.SHUT_RDWR)
            return True
    except OSError:  # not a socket, not connected, or closed by now
        return False


def _plain(host: str) -> str:
    """An address in one spelling; 127.0.0.1 on a socket of IPv6 is ::ffff:127.0.0.1."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
