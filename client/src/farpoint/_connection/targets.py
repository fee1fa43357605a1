"""Targets: a gRPC target, or a list of servers, which becomes one."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import TypeAlias

from farpoint._connection.proxies import is_direct
from farpoint.errors import InvalidArgumentError, UnavailableError

Target: TypeAlias = str | Sequence[str]

DEFAULT_PORT = 50051
DEFAULT_TARGET = f"127.0.0.1:{DEFAULT_PORT}"
DEFAULT_TIMEOUT_S = 60.0

_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/,\[\]]+)"
_ADDRESS = re.compile(rf"{_HOST}:(\d{{1,5}})")
# The name of a resolver of gRPC is never followed by digits and nothing else.
_RESOLVER = re.compile(r"[A-Za-z][\w+.-]*:(?!\d+$)")
_WITHOUT_PORT = re.compile(rf"(?:dns:///)?{_HOST}")
_MAX_PORT = 65535


def checked_target(target: Target) -> str:
    """A target as one string; a list is separated by commas, and the default port is 50051."""
    if not isinstance(target, str):
        target = _joined(target)
    servers = target.split(",")
    if _WITHOUT_PORT.fullmatch(servers[0].strip()) or _is_address(servers[0].strip()):
        target = ",".join(map(_with_port, servers))
    if target.startswith(("http://", "https://")) or not _is_whole(target):
        raise InvalidArgumentError(
            "target must be HOST, HOST:PORT, dns:///HOST:PORT, unix:PATH or a list of HOST:PORT, "
            f"got {target!r}",
            field="target",
        )
    return target


def _with_port(server: str) -> str:
    return f"{server}:{DEFAULT_PORT}" if _WITHOUT_PORT.fullmatch(server.strip()) else server


def split_target(target: str) -> list[str]:
    """The servers of a list; the target itself if it is not a list."""
    addresses = [part.strip() for part in target.split(",")]
    return addresses if all(map(_is_address, addresses)) else [target]


def grpc_target(target: str) -> tuple[str, tuple[tuple[str, str | int], ...]]:
    """The gRPC target of a checked target, and its channel options.

    gRPC takes lists of numbers alone, so names in a list are looked up now, once.
    """
    servers = split_target(target)
    direct = (("grpc.enable_http_proxy", 0),) if is_direct(target) else ()
    if len(servers) == 1:
        return servers[0], direct
    found = list(dict.fromkeys(place for server in servers for place in _look_up(server)))
    if not found:
        raise UnavailableError(f"none of these names has an address: {target}")
    # The name in certificates, as with a single target.
    options = (("grpc.default_authority", servers[0]), *direct)
    if all(host.version == 4 for host, _ in found):
        return "ipv4:" + ",".join(f"{host}:{port}" for host, port in found), options
    return "ipv6:" + ",".join(f"[{_as_ipv6(host)}]:{port}" for host, port in found), options


_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def _look_up(server: str) -> list[tuple[_Address, int]]:
    """Addresses of "HOST:PORT"; none for an unknown name."""
    host, _, port = server.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [(ipaddress.ip_address(place[0]), int(port)) for *_, place in found]


def _as_ipv6(host: _Address) -> str:
    return str(host) if host.version == 6 else f"::ffff:{host}"


def _joined(target: Sequence[str]) -> str:
    for server in target if len(target) > 1 else ():
        if not _is_address(_with_port(server)):
            raise InvalidArgumentError(
                f"each of several targets must be HOST:PORT, got {server!r}", field="target"
            )
    return ",".join(target)


def _is_whole(target: str) -> bool:
    """Whether a target is a list of addresses, or begins with the name of a resolver of gRPC."""
    parts = [_is_address(part.strip()) for part in target.split(",")]
    return all(parts) or (not parts[0] and _RESOLVER.match(target) is not None)


def _is_address(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    return match is not None and int(match[1]) <= _MAX_PORT
