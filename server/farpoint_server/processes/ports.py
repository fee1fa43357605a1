"""Ports that the processes of a server will share, held by the supervisor for as long as it lives.

Its sockets are bound and do not listen, so the kernel gives them no connection; but no other
program can take the port while a process is replaced, and port 0 is the same one for all.
"""

import socket
from collections.abc import Sequence
from typing import Any

from farpoint_server.config.addresses import is_unix, split_host_port
from farpoint_server.config.settings import Settings
from farpoint_server.errors import AddressUnavailableError, StartError


class Ports:
    """The bound sockets, and the settings with the ports that were taken.

    Args:
        settings: With addresses HOST:PORT; unix:PATH is left as it is.

    Attributes:
        settings: The same with each port 0 replaced.

    Raises:
        AddressUnavailableError: an address is in use, not ours, or not allowed.
        StartError: this system does not share ports.
    """

    def __init__(self, settings: Settings) -> None:
        if not hasattr(socket, "SO_REUSEPORT") or not hasattr(socket, "SO_INCOMING_CPU"):
            raise StartError("--processes above 1 needs Linux")
        self._sockets: list[socket.socket] = []
        calls: dict[str, str] = {}
        for flag, addresses in (
            ("--listen", settings.listen),
            ("--admin-listen", self._of_grpc(settings)),
        ):
            for address in addresses:
                if address not in calls:
                    calls[address] = self._take(flag, address)
        taken: dict[str, Any] = {"listen": tuple(calls[a] for a in settings.listen)}
        for name in ("http_listen", "probe_listen"):
            address = getattr(settings, name)
            taken[name] = address and self._take(f"--{name.replace('_', '-')}", address)
        http = {settings.http_listen: taken["http_listen"]}
        taken["admin_listen"] = tuple(calls.get(a) or http[a] for a in settings.admin_listen)
        self.settings = settings.model_copy(update=taken)

    def close(self) -> None:
        """Gives the ports back."""
        for taken in self._sockets:
            taken.close()

    @staticmethod
    def _of_grpc(settings: Settings) -> Sequence[str]:
        """Addresses of administration that are not only that of HTTP."""
        admin, http = settings.admin_listen, settings.http_listen
        return [a for a in admin if a in settings.listen or a != http]

    def _take(self, flag: str, address: str) -> str:
        if is_unix(address):
            return address
        host, port = split_host_port(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, (name, _, *rest) in found:
                place = (name, port, *rest)
                if port:
                    # Alone: a server that shares its port would let this one share it too.
                    with socket.socket(family, kind, protocol) as probe:
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        probe.bind(place)
                taken = socket.socket(family, kind, protocol)
                self._sockets.append(taken)
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                taken.bind(place)
                port = taken.getsockname()[1]
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise AddressUnavailableError(f"{flag} {address}: cannot be bound: {reason}") from error
        return f"{address.rpartition(':')[0]}:{port}"
