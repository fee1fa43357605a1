"""What callers hold of a server, counted over all of its front ends."""

import hashlib
import math
import mmap
import os
import secrets
from enum import IntEnum
from functools import lru_cache

import numpy as np

# Of callers, chosen by a keyed hash: two callers have one in common, and so one share of a limit,
# with a chance of one in as many, which no caller can raise.
PLACES = 1 << 16
KEY_BYTES = mmap.PAGESIZE
NUMBER_BYTES = 8


class Count(IntEnum):
    """What is counted."""

    POINTS = 0
    BYTES = 1
    REQUESTS = 2
    ADMIN = 3
    CHECKS = 4
    WATCHES = 5


ROW_BYTES = (1 + PLACES) * len(Count) * NUMBER_BYTES
# Whole pages, which `clear` returns.
STRIDE = -(-ROW_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE // NUMBER_BYTES


class Counts:
    """Numbers by caller and in total, in memory of all front ends.

    Each front end writes its own row and reads the sum of all rows, so no update is lost without a
    lock. Numbers are aligned and have eight bytes, which a processor stores at once. Two front ends
    that admit at the same moment may pass a limit by one request each.

    Args:
        descriptor: As of `create`; None for a server of one process.
        row: Of this front end.
    """

    def __init__(self, descriptor: int | None = None, row: int = 0) -> None:
        if descriptor is None:
            self._memory = mmap.mmap(-1, KEY_BYTES + STRIDE * NUMBER_BYTES)
            self._memory[:16] = secrets.token_bytes(16)
        else:
            self._memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
            self.descriptor = descriptor
        self._numbers = memoryview(self._memory)[KEY_BYTES:].cast("q")
        self._refused = memoryview(self._memory)[16:32].cast("q")
        self._row, self._is_alone = row * STRIDE, descriptor is None
        key = bytes(self._memory[:16])

        @lru_cache(4096)
        def place(caller: str) -> int:
            digest = hashlib.blake2b(caller.encode(errors="replace"), key=key, digest_size=4)
            return (1 + int.from_bytes(digest.digest(), "little") % PLACES) * len(Count)

        self._place = place

    @staticmethod
    def create(front_ends: int) -> "Counts":
        """Counts for the processes of a server: as many front ends, and an engine's unused row."""
        descriptor = os.memfd_create("farpoint-counts", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, KEY_BYTES + (front_ends + 1) * STRIDE * NUMBER_BYTES)
        os.pwrite(descriptor, secrets.token_bytes(16), 0)
        return Counts(descriptor)

    @property
    def front_ends(self) -> int:
        """Rows that front ends write to."""
        return max(len(self._numbers) // STRIDE - 1, 1)

    def add(self, caller: str, what: Count, more: int) -> None:
        """Counts for a caller; a negative number takes back."""
        self._numbers[self._row + what] += more
        self._numbers[self._row + self._place(caller) + what] += more

    def own(self, what: Count) -> int:
        """Of all callers of this front end."""
        return self._numbers[self._row + what]

    def total(self, what: Count) -> int:
        """Of all callers."""
        numbers = self._numbers
        return numbers[what] if self._is_alone else sum(numbers[what::STRIDE])

    def held(self, caller: str, what: Count) -> int:
        """Of a caller."""
        at = self._place(caller) + what
        return self._numbers[at] if self._is_alone else sum(self._numbers[at::STRIDE])

    def callers(self, what: Count) -> int:
        """Callers that hold some."""
        rows = np.frombuffer(self._numbers, np.int64).reshape(-1, STRIDE)
        held = rows[:, : (1 + PLACES) * len(Count)].reshape(len(rows), -1, len(Count))[:, 1:, what]
        return int(np.count_nonzero(held.sum(0)))

    def note_refused(self, caller: str, seconds: float) -> None:
        """Notes, in seconds of a monotonic clock, when a caller was refused that held nothing."""
        self._refused[0], self._refused[1] = self._place(caller), int(seconds * 1e3)

    def refused_another_at(self, caller: str) -> float:
        """When that last was another caller; minus infinity if it was this one, or none."""
        place, milliseconds = self._refused
        return milliseconds / 1e3 if place and place != self._place(caller) else -math.inf

    def clear(self, row: int) -> None:
        """Takes back all that a front end has counted that has ended."""
        size = STRIDE * NUMBER_BYTES
        self._memory.madvise(mmap.MADV_REMOVE, KEY_BYTES + row * size, size)
