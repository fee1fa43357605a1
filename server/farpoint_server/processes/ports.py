"""Ports that the processes of a server share, held by the supervisor.

Its sockets are bound and do not listen, so they get no connections; but no other user can take the
port while a process is replaced, and port 0 is the same for all. Another program of the same user
can share the port and then gets some of the connections, which is logged.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from farpoint_server.config.network import is_unix, split_host_port
from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.sockets import reason_of

CHECK_S = 5.0
LISTENING = "0A"
log = structlog.get_logger("farpoint.supervisor")


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

    async def watch(self, pids: Callable[[], Iterable[int]]) -> None:
        """Logs each socket on our ports that is not of the processes `pids`, until cancelled."""
        logged: set[int] = set()
        before: dict[int, int] = {}
        while True:
            await asyncio.sleep(CHECK_S)
            found = await asyncio.to_thread(self.foreign, pids)
            # Seen twice: a process of ours may have just ended.
            for inode in (found.keys() & before.keys()) - logged:
                logged.add(inode)
                log.error("another program listens on a port of this server", port=found[inode])
            before = found

    def foreign(self, pids: Callable[[], Iterable[int]]) -> dict[int, int]:
        """Ports of ours at which a foreign socket listens, by the socket's inode."""
        ours = {taken.getsockname()[1] for taken in self._sockets}
        found: dict[int, int] = {}
        for table in ("tcp", "tcp6"):
            with suppress(OSError):
                for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                    _, local, _, state, *_, inode = line.split()[:10]
                    port = int(local.rpartition(":")[2], 16)
                    if state == LISTENING and port in ours:
                        found[int(inode)] = port
        for known in _sockets_of(pids()) if found else ():
            found.pop(known, None)
        return found

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


def _sockets_of(pids: Iterable[int]) -> Iterable[int]:
    """Inodes of the sockets of processes."""
    for pid in pids:
        with suppress(OSError):  # it has ended
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    name = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                    if name.startswith("socket:["):
                        yield int(name[8:-1])
