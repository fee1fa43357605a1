"""Unix socket on which callers pass shared memory (memfd), each for as long as it is open."""

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from farpoint.v1.shared_memory_pb2 import SharedMemoryGrant
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.config.settings import Settings
from farpoint_server.errors import (
    InvalidRequestError,
    ServiceError,
    StartError,
    status_of,
)
from farpoint_server.transport.sockets import claim_unix, reason_of

BACKLOG = 128
# A caller who connects has its region ready.
PATIENCE_S = 5.0
# After a failed accept, which means that file descriptors have run out.
PAUSE_S = 0.1


class SharedMemoryServer:
    """Regions and the Unix socket on which they arrive; without an address there are none.

    One packet with a file descriptor hands a region over and is answered with a SharedMemoryGrant.
    Any further event of the connection, usually its end, takes the region back. Each connection has
    a thread, apart from the event loop, because the owner of the descriptor's file may let a close
    wait. Connections beyond `max_connections` are closed at once.

    Attributes:
        regions: Memory that callers share now.
        address: As in the settings.
    """

    def __init__(self, settings: Settings) -> None:
        self.regions = Regions(settings.max_shared_memory_bytes, settings.max_bytes_in_flight)
        self.address = settings.shared_memory_listen
        self._path = Path((self.address or "").removeprefix("unix:"))
        self._max_connections = settings.max_connections
        self._listening: socket.socket | None = None
        self._inode: int | None = None
        self._connections: set[socket.socket] = set()

    def start(self) -> None:
        """Starts to accept regions.

        Raises:
            StartError: the address cannot be bound, or this system has no such memory.
        """
        if self.address is not None:
            self._listening = listen(str(self._path))
            self._inode = self._inode_of_path()
            threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def stop(self) -> None:
        """Ends every connection and removes the socket, unless another server has replaced it."""
        if self._listening is None:
            return
        listening, self._listening = self._listening, None
        if self._inode_of_path() == self._inode:
            self._path.unlink(missing_ok=True)
        for one in (listening, *self._connections):
            with suppress(OSError):  # already ended
                one.shutdown(socket.SHUT_RDWR)

    def _inode_of_path(self) -> int | None:
        try:
            return self._path.stat().st_ino
        except OSError:
            return None

    def _accept(self, listening: socket.socket) -> None:
        while self._listening is listening:
            try:
                connection, _ = listening.accept()
            except OSError:
                time.sleep(PAUSE_S)
                continue
            if len(self._connections) >= self._max_connections:
                connection.close()
                continue
            self._connections.add(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:  # threads have run out
                self._connections.discard(connection)
                connection.close()
        listening.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):  # the caller has gone
                connection.settimeout(PATIENCE_S)
                self._share(connection)
        finally:
            self._connections.discard(connection)

    def _share(self, connection: socket.socket) -> None:
        try:
            name = self._receive(connection)
        except ServiceError as error:
            connection.send(SharedMemoryGrant(error=status_of(error, "")).SerializeToString())
            return
        try:
            connection.send(SharedMemoryGrant(region=name).SerializeToString())
            connection.settimeout(None)
            connection.recv(1)
        finally:
            self.regions.remove(name)

    def _receive(self, connection: socket.socket) -> bytes:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
        try:
            if not descriptors:
                raise InvalidRequestError("memory", "a file descriptor", "none")
            return self.regions.add(descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def listen(path: str) -> socket.socket:
    """A listening socket; replaces one that a killed server left behind.

    Raises:
        StartError: the path is in use or not allowed.
        StartError: this system has no such sockets.
    """
    if not hasattr(socket, "SOCK_SEQPACKET"):
        raise StartError("--shared-memory-listen needs Linux")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with claim_unix(path):
            listening.bind(path)
            listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise StartError(
            f"--shared-memory-listen unix:{path}: cannot be bound: {reason_of(error)}"
        ) from error
    return listening
