"""Hot reload of files: certificates, keys and tokens that are replaced while the server runs."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger("farpoint.files")


class ReloadedFiles(Generic[T]):
    """The last good content of some files; for any thread.

    Args:
        paths: The files. Where one is a link, a change of what it leads to counts.
        load: Reads them; OSError or ValueError says why they are of no use. Its text is logged,
            so it must not quote them.

    Raises:
        OSError, ValueError: as `load` does; later on such a failure is logged once and the
            content stays as it was.
    """

    def __init__(self, paths: Sequence[Path], load: Callable[[], T]) -> None:
        self._paths = paths
        self._load = load
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._content = load()

    def get(self) -> T:
        """The content; the same object until a file changes."""
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                self._seen = signature
                self._reload()
            return self._content

    def _reload(self) -> None:
        files = [str(path) for path in self._paths]
        try:
            self._content = self._load()
        except (OSError, ValueError) as error:
            log.warning("files not usable, the former content stays", files=files, error=str(error))
        else:
            log.info("files read again", files=files)

    def _signature(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(map(_identity, self._paths))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
