"""POSIX shared memory regions (shm_open) that callers have registered, read and written by name.

The objects are named by callers and belong to nobody in particular, so they are opened anew for
each use and read with pread: a mapping of an object that its owner shortens would end this process
with SIGBUS, and a descriptor that is kept would keep its memory.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farpoint_server.codec.wire import Buffer
from farpoint_server.errors import (
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    UnsupportedError,
    quoted,
)

FOLDER = Path("/dev/shm")
# Of one owner.
MAX_REGIONS = 1024
MAX_NAME = 256
KEY = re.compile(r"[A-Za-z0-9_.-]{1,250}")
# Linux reads and writes no more in one call.
MAX_BYTES = 0x7FFFF000
RETRY_MS = 1000


@dataclass(frozen=True)
class PosixRegion:
    """A part of a memory object."""

    name: str
    key: str
    offset: int
    """In bytes, from the beginning of the object."""
    size: int
    """In bytes."""


@dataclass(frozen=True)
class PosixRange:
    """Where a tensor lies in a region that was registered."""

    region: PosixRegion
    offset: int
    """In bytes, from the beginning of the region."""
    size: int
    """In bytes."""
    field: str
    """Path of the tensor in the request."""


class PosixMemory:
    """The regions of each owner: callers with one token have theirs in common.

    Attributes:
        max_read_bytes: Of one request, and of one range.

    Args:
        prefix: What the keys of objects begin with that may be registered; None for none at all.
        max_read_bytes: Of one request, as they are copied before they are used.
        folder: Where the system has the objects.
    """

    def __init__(
        self, prefix: str | None = None, max_read_bytes: int = MAX_BYTES, folder: Path = FOLDER
    ) -> None:
        self._prefix = prefix
        self.max_read_bytes = min(max_read_bytes, MAX_BYTES)
        self._folder = folder
        self._regions: dict[tuple[str, str], PosixRegion] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether any object may be registered."""
        return self._prefix is not None

    def register(self, owner: str, name: str, key: str, offset: int, size: int) -> None:
        """Makes a part of an object known by a name.

        Raises:
            InvalidRequestError: the name is taken, or the object is not as it should be.
            OverloadedError: there are as many regions as there may be.
        """
        if not 1 <= len(name) <= MAX_NAME:
            raise InvalidRequestError("name", f"1 to {MAX_NAME} characters", len(name))
        if (owner, name) in self._regions:
            raise InvalidRequestError("name", "one that is not registered", quoted(name))
        region = PosixRegion(name, self._checked_key(key), offset, size)
        if size < 1:
            raise InvalidRequestError("byte_size", "at least one byte", size)
        if sum(who == owner for who, _ in self._regions) >= MAX_REGIONS:
            raise OverloadedError(f"all {MAX_REGIONS} regions are registered", RETRY_MS)
        with self._opened(region, os.O_RDWR, "key") as descriptor:
            object_size = os.fstat(descriptor).st_size
        if offset + size > object_size:
            expected = f"a range within the {object_size} bytes of the memory object"
            raise InvalidRequestError("byte_size", expected, f"{size} from {offset} on")
        self._regions[owner, name] = region

    def unregister(self, owner: str, name: str) -> None:
        """Forgets a region, or all of an owner for an empty name; one that is not there is fine."""
        for key in [key for key in self._regions if key[0] == owner and name in ("", key[1])]:
            del self._regions[key]

    def status(self, owner: str, name: str) -> Sequence[PosixRegion]:
        """The region of a name, or all of an owner for an empty one; raises NotFoundError."""
        if not name:
            return [region for (who, _), region in self._regions.items() if who == owner]
        if (owner, name) not in self._regions:
            raise NotFoundError(f"name: expected a region that is registered, got {quoted(name)}")
        return [self._regions[owner, name]]

    def all(self) -> Sequence[tuple[str, PosixRegion]]:
        """Every region, with its owner."""
        return [(owner, region) for (owner, _), region in self._regions.items()]

    def find(self, owner: str, name: str, offset: int, size: int, field: str) -> PosixRange:
        """A part of a region, for the tensor at `field`; raises InvalidRequestError."""
        region = self._regions.get((owner, name))
        parameters = f"{field}.parameters"
        if region is None:
            where = f"{parameters}[shared_memory_region]"
            raise InvalidRequestError(where, "a region that is registered", quoted(name))
        if not 0 <= size <= self.max_read_bytes:
            where = f"{parameters}[shared_memory_byte_size]"
            raise InvalidRequestError(where, f"0 to {self.max_read_bytes} bytes", size)
        # Python integers: a sum that overflows 64 bits must not look small.
        if offset < 0 or offset + size > region.size:
            expected = f"{size} bytes within the {region.size} of the region"
            got = f"an offset of {offset}"
            raise InvalidRequestError(f"{parameters}[shared_memory_offset]", expected, got)
        return PosixRange(region, offset, size, field)

    def read(self, place: PosixRange) -> bytes:
        """A copy of the bytes of a range; raises InvalidRequestError if they are not there."""
        with self._opened(place.region, os.O_RDONLY, place.field) as descriptor:
            data = os.pread(descriptor, place.size, place.region.offset + place.offset)
        if len(data) != place.size:
            raise _shortened(place)
        return data

    def write(self, place: PosixRange, data: Buffer) -> None:
        """Writes at the beginning of a range; raises InvalidRequestError if it cannot."""
        begin = place.region.offset + place.offset
        with self._opened(place.region, os.O_RDWR, place.field) as descriptor:
            # A write behind the end would make the object longer.
            if os.fstat(descriptor).st_size < begin + len(data):
                raise _shortened(place)
            written = os.pwrite(descriptor, data, begin)
        if written != len(data):
            raise _shortened(place)

    @contextmanager
    def _opened(self, region: PosixRegion, flags: int, field: str) -> Iterator[int]:
        # Neither through a link to elsewhere, nor waiting for the other end of a pipe.
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._folder / region.key, flags)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise InvalidRequestError(field, "a memory object", "another file")
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            expected = f"the memory object {region.key!r}, for this server to read and write"
            raise InvalidRequestError(field, expected, error.strerror) from error

    def _checked_key(self, key: str) -> str:
        if self._prefix is None:
            raise UnsupportedError("this server takes no system shared memory")
        # Whatever the number of slashes, as for shm_open.
        bare = key.lstrip("/")
        if not bare.startswith(self._prefix) or not KEY.fullmatch(bare):
            expected = f"'/{self._prefix}' and letters, digits, '_', '-' or '.'"
            raise InvalidRequestError("key", expected, quoted(key))
        return bare


def _shortened(place: PosixRange) -> InvalidRequestError:
    expected = f"{place.size} bytes at {place.offset} of the region {quoted(place.region.name)}"
    return InvalidRequestError(place.field, expected, "a memory object that was shortened")
