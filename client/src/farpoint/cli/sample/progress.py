"""Progress bars on standard error, where that is a terminal."""

import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def is_shown(*, quiet: bool) -> bool:
    """Whether bars are shown."""
    return sys.stderr.isatty() and not quiet


def _bar(**options: Any) -> Any:
    from tqdm import tqdm  # nothing is loaded where no bar is shown

    is_sized = all(os.get_terminal_size(sys.stderr.fileno()))
    size = {"dynamic_ncols": True} if is_sized else {"ncols": 80, "nrows": 24}
    return tqdm(file=sys.stderr, **size, **options)


class FilesBar:
    """Iterates over futures as they end; a bar counts the files."""

    def __init__(self, futures: "Iterable[Future[str]]", total: int, *, quiet: bool) -> None:
        self._ended: Iterable[Future[str]] = as_completed(futures)
        self._bar: Any = None
        if is_shown(quiet=quiet):
            self._ended = self._bar = _bar(iterable=self._ended, total=total, unit="file")

    def __iter__(self) -> "Iterator[Future[str]]":
        return iter(self._ended)

    def aside(self) -> AbstractContextManager[Any]:
        """Takes the bar off the terminal while other lines are printed."""
        return nullcontext() if self._bar is None else self._bar.external_write_mode()


class UploadBar:
    """A bar of bytes, which appears with the first call; closed with the last or at the exit."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, sent: int, total: int) -> None:
        if self._bar is None:
            scale = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
            self._bar = _bar(desc="upload", total=total, **scale)
        self._bar.update(sent - self._bar.n)
        if sent == total:
            self._bar.close()

    def __enter__(self) -> "UploadBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
