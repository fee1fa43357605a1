"""Sockets: paths that other servers may listen on, ends of ports, connections by their peers."""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import quote, unquote

DESCRIPTORS = "/proc/self/fd"
# Classic BPF on a TCP header (linux/filter.h): load the flags; if SYN is set, drop; else keep all.
SO_ATTACH_FILTER = 26
KEEP_NO_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


@contextmanager
def claim_unix(path: str) -> Iterator[None]:
    """A block in which the path can be bound; removes what a killed server left behind.

    A lock on the folder lets servers that start together bind one after the other: a socket that is
    bound and not yet listening looks like such a leftover.

    Raises:
        OSError: a server may listen there, or the path is no socket's.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # it may not be read, or its file system has no locks
            stack.enter_context(locked(Path(path).parent.resolve()))
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "a file that is not a socket exists there")
            _remove_stale(path)
        yield


def reason_of(error: Exception) -> str:
    """Why an address cannot be bound, or a file read, in the words of the system."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, no link; the kernel releases it with the process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def drop_new_connections(listening: socket.socket) -> None:
    """Has a TCP port begin no more connections, on Linux, before it is closed.

    The kernel resets what it has connected and the program has not accepted, and one can always
    come between. A caller whose SYN is dropped sends it again, and is then refused or accepted by
    another process.
    """
    if sys.platform == "linux":
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *op) for op in KEEP_NO_SYN))
        program = struct.pack("HP", len(KEEP_NO_SYN), ctypes.addressof(code))
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def _remove_stale(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except PermissionError:
            raise
        except OSError:  # of a listener of another kind, or with a full queue
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def close_connection(peer: str) -> bool:
    """Shuts down the connection of `context.peer()`; whether it was found.

    Connections of unix sockets have no names, and only Linux lists descriptors: there it is False.
    """
    if not os.path.isdir(DESCRIPTORS):
        return False
    return any(_close_if(int(name), unquote(peer)) for name in os.listdir(DESCRIPTORS))


def _close_if(descriptor: int, peer: str) -> bool:
    """Shuts down a descriptor if it is a connection to the peer.

    It is duplicated first: a number that is closed meanwhile may be another file's a moment later.
    """
    try:
        duplicate = os.dup(descriptor)
    except OSError:  # closed by now
        return False
    try:
        connection = socket.socket(fileno=duplicate)
    except OSError:  # not a socket
        os.close(duplicate)
        return False
    with connection, suppress(OSError):  # not connected
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and unquote(peer_name(*connection.getpeername()[:2])) == peer:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def peer_name(host: str, port: int) -> str:
    """A peer in gRPC's form, so that a caller is the same on every port."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return f"{host}:{port}"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return f"ipv6:{quote(f'[{host}]', safe=':')}:{port}"
        host = str(address.ipv4_mapped)
    return f"ipv4:{host}:{port}"
