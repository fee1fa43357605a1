"""Memory objects as callers share them, for the tests of both ends."""

import fcntl
import os


class MemoryObjects:
    """Makes memfds, and closes them all at the end."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def __call__(self, size: int, *, sealed: bool = True, flags: int = 0) -> int:
        descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING | flags)
        self._descriptors.append(descriptor)
        os.ftruncate(descriptor, size)
        if sealed:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return descriptor

    def __enter__(self) -> "MemoryObjects":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
