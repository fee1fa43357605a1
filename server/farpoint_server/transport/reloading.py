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
    """The last valid content of some files; thread-safe.

    Args:
        paths: The files. Where one is a link, a change of its target counts.
        load: Reads them; raises OSError or ValueError for invalid ones. Its text is logged, so it
            must not quote them.
        revoke_after_s: Seconds after which the previous content of files that are invalid now is
            replaced by `revoked`; None keeps it for ever.
        revoked: That content.

    Raises:
        OSError, ValueError: as `load` does; later on such a failure is logged once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], T],
        revoke_after_s: float | None = None,
        revoked: T | None = None,
    ) -> None:
        self._paths, self._load = paths, load
        self._revoke_after_s, self._revoked = revoke_after_s, revoked
        self._revoke_at: float | None = None
        self._lock = threading.Lock()
        self._seen = [_identity(path) for path in paths]
        self._content = load()

    def get(self) -> T:
        """The content; the same object until a file changes or the content is revoked."""
        with self._lock:
            seen = [_identity(path) for path in self._paths]
            if seen != self._seen:
                self._seen = seen
                self._reload()
            is_due = self._revoke_at is not None and time.monotonic() >= self._revoke_at
            if is_due and self._revoked is not None and self._content is not self._revoked:
                self._content = self._revoked
                self._log(log.error, "credentials file invalid; previous contents revoked")
            return self._content

    def _reload(self) -> None:
        try:
            self._content = self._load()
        except (OSError, ValueError) as error:
            more: dict[str, object] = {"error": str(error)}
            if self._revoke_after_s is not None:
                # A second mistake does not buy more time, not even once the content is revoked.
                self._revoke_at = self._revoke_at or time.monotonic() + self._revoke_after_s
                more["for_s"] = round(max(0.0, self._revoke_at - time.monotonic()), 3)
            self._log(log.warning, "credentials file invalid; previous contents kept", **more)
        else:
            self._revoke_at = None
            self._log(log.info, "credentials files reloaded")

    def _log(self, write: Callable[..., object], event: str, **more: object) -> None:
        write(event, files=[str(path) for path in self._paths], **more)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
