"""Unix socket paths, which other servers may use, and reasons why an address cannot be bound."""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


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
    """Why an address cannot be bound, in the words of the system."""
    text = getattr(error, "strerror", None) or str(error)
    return text.partition(" (while attempting")[0]


@contextmanager
def locked(folder: Path, flags: int = 0) -> Iterator[None]:
    """Holds the lock of a folder, which the kernel releases with the process.

    Args:
        folder: It must not be a link.
        flags: LOCK_NB to raise BlockingIOError instead of waiting.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(descriptor)


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
