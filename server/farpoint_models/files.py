"""Files of a user's choice: opened once, and only if they are regular."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, error: type[Exception]) -> BinaryIO:
    """A regular file to read; raises `error` for a pipe, a device, a folder or a path with NUL."""
    if "\0" in str(path):
        raise error(f"{str(path)[:256]!r}: expected a path without NUL")
    # Without O_NONBLOCK, opening a named pipe waits for a writer, possibly for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise error(f"{path}: expected a regular file, got one of another kind")
    return os.fdopen(descriptor, "rb")
