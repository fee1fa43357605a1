"""Ports that the processes of a server share, held by the supervisor.

Its sockets are bound and do not listen, so they get no connections; but no other user can take the
port while a process is replaced, and port 0 is the same for all.
"""

import socket
from typing import Any

from farpoint_server.config.network import is_unix, split_host_port
from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.sockets import reason_of


class Ports:
    """The bound sockets, and the settings with the ports that were taken.

    Attributes:
        settings: The same with each port 0 replaced.

    Raises:
        StartError: an address is in use, not ours, or not allowed.
    """

    def __init__(self, settings: Settings) -> None:
        self._sockets: list[socket.socket] = []
        taken: dict[str, Any] = {}
        known: dict[Any, str] = {}
        listen = []
        for address in settings.listen:  # port 0 is another one each time
            if address not in known or address.endswith(":0"):
                listen.append(self._take("--listen", address))
            known.setdefault(address, listen[-1])
        for name in ("http_listen", "probe_listen"):
            address = getattr(settings, name)
            taken[name] = address and self._take(f"--{name.replace('_', '-')}", address)
        known.setdefault(settings.http_listen, taken["http_listen"])
        for address in settings.admin_listen:
            if address not in known:
                known[address] = self._take("--admin-listen", address)
        taken["listen"] = tuple(listen)
        taken["admin_listen"] = tuple(known[a] for a in settings.admin_listen)
        self.settings = settings.model_copy(update=taken)

    def close(self) -> None:
        """Closes the ports."""
        for taken in self._sockets:
            taken.close()

    def _take(self, flag: str, address: str) -> str:
        if is_unix(address):
            return address
        host, port = split_host_port(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, (name, _, *rest) in found:
                place = (name, port, *rest)
                if port:
                    # Without SO_REUSEPORT, which would share the port of another server.
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
            why = f"{flag} {address}: cannot be bound: {reason_of(error)}"
            raise StartError(why) from error
        return f"{address.rpartition(':')[0]}:{port}"
