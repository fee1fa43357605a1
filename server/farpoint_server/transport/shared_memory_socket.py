"""A Unix socket that carries whole packets and file descriptors."""

import socket
import stat
from contextlib import suppress
from pathlib import Path

from farpoint_server.errors import AddressUnavailableError, StartError

BACKLOG = 128


def listen(path: str) -> socket.socket:
    """A listening socket; one that a killed server has left behind is replaced.

    Raises:
        AddressUnavailableError: the path is in use or not allowed.
        StartError: this system has no such sockets.
    """
    if not hasattr(socket, "SOCK_SEQPACKET"):
        raise StartError("--shared-memory-listen needs Linux")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _remove_stale(path)
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise AddressUnavailableError(f"--shared-memory-listen unix:{path}: {error}") from error
    return listening


def _remove_stale(path: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(Path(path).stat().st_mode) and _is_refused(path):
            Path(path).unlink()


def _is_refused(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        return False
