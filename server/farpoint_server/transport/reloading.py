"""Hot reload of files: certificates, keys and tokens that are replaced while the server runs."""

import threading
import time
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
        withdraw_after_s: Seconds after which the content of files that are of no use any more is
            `withdrawn` in its place; None keeps the last good one for ever.
        withdrawn: That content.

    Raises:
        OSError, ValueError: as `load` does; later on such a failure is logged once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], T],
        withdraw_after_s: float | None = None,
        withdrawn: T | None = None,
    ) -> None:
        self._paths = paths
        self._load = load
        self._withdraw_after_s = withdraw_after_s
        self._withdrawn = withdrawn
        self._withdraw_at: float | None = None
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._content = load()

    def get(self) -> T:
        """The content; the same object until a file changes or the content is withdrawn."""
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                self._seen = signature
                self._reload()
            if self._withdraw_at is not None and time.monotonic() >= self._withdraw_at:
                self._withdraw()
            return self._content

    def _reload(self) -> None:
        try:
            self._content = self._load()
        except (OSError, ValueError) as error:
            self._warn(error)
        else:
            self._withdraw_at = None
            log.info("files read again", files=self._names)

    def _warn(self, error: Exception) -> None:
        event = "files not usable, the former content stays"
        if self._withdraw_after_s is None:
            log.warning(event, files=self._names, error=str(error))
            return
        # A second mistake does not buy more time, not even once the content is withdrawn.
        if self._withdraw_at is None:
            self._withdraw_at = time.monotonic() + self._withdraw_after_s
        left_s = round(max(0.0, self._withdraw_at - time.monotonic()), 3)
        log.warning(event, files=self._names, error=str(error), for_s=left_s)

    def _withdraw(self) -> None:
        if self._withdrawn is not None and self._content is not self._withdrawn:
            self._content = self._withdrawn
            log.error("files not usable, the former content is withdrawn", files=self._names)

    @property
    def _names(self) -> Sequence[str]:
        return [str(path) for path in self._paths]

    def _signature(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(map(_identity, self._paths))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
