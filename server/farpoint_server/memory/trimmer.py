"""Readers-writer lock: batches are readers, trims are writers; and the trims, timed and counted."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from farpoint_server.memory.allocator import Allocator, Stats
from farpoint_server.memory.snapshot import Reason, Trims

Report = Callable[..., object]


class Gate:
    """A readers-writer gate whose writer gives up, or, asked to insist, holds readers back.

    Readers are batches: from before the first allocation on the device until the answer has been
    copied from it. Writers are trims.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._readers = 0
        self._writing = False
        self._insisting = 0

    @property
    def readers(self) -> int:
        """Batches that are inside now."""
        return self._readers

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A batch; waits only for a trim that runs or that insists."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._insisting)
            self._readers += 1
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> bool:
        """A batch that does not wait; where it may go ahead, it ends with `leave`."""
        with self._lock:
            if self._writing or self._insisting:
                return False
            self._readers += 1
        return True

    def leave(self) -> None:
        """Ends a batch."""
        with self._lock:
            self._readers -= 1
            # Nobody else waits for readers.
            if self._insisting:
                self._changed.notify_all()

    def hold_shared(self) -> Callable[[], None]:
        """Keeps a batch inside after its `reading` has ended, until what is returned is called.

        Must be called by a thread that is reading; what is returned may be called by any.
        """
        with self._changed:
            self._readers += 1
        return self.leave

    @contextmanager
    def try_exclusive(self) -> Iterator[bool]:
        """A trim that does not wait; yields whether it may go ahead."""
        with self._changed:
            entered = not self._readers and not self._writing
            self._writing = self._writing or entered
        try:
            yield entered
        finally:
            if entered:
                self._end_writing()

    @contextmanager
    def exclusive(self, timeout_s: float) -> Iterator[bool]:
        """A trim that lets no new batch in while it waits for those inside.

        Must not be used by a thread that is itself reading. Yields whether all left in time.
        """
        give_up = time.monotonic() + timeout_s
        with self._changed:
            self._insisting += 1
            entered = self._changed.wait_for(
                lambda: not self._readers and not self._writing, give_up - time.monotonic()
            )
            self._insisting -= 1
            self._writing = self._writing or entered
            self._changed.notify_all()
        try:
            yield entered
        finally:
            if entered:
                self._end_writing()

    def _end_writing(self) -> None:
        with self._changed:
            self._writing = False
            self._changed.notify_all()


@dataclass(frozen=True)
class TrimRecord:
    """One trim that was made."""

    reason: Reason
    seconds: float
    returned_bytes: int
    left: Stats


class Trimmer:
    """The only caller of `Allocator.trim`.

    Args:
        allocator: What is trimmed.
        gate: Shared with all whose batches a trim would meet.
        report: Called with an event and its fields for each trim.
    """

    def __init__(self, allocator: Allocator, gate: Gate, report: Report) -> None:
        self._allocator = allocator
        self._gate = gate
        self._report = report
        self.trims: dict[Reason, Trims] = {}
        self.before_host_trim: list[Callable[[], None]] = []
        """What hands host memory to the caches that are about to be trimmed."""

    def attempt(self, reason: Reason, *, host: bool) -> TrimRecord | None:
        """Trims if no batch is inside the gate; else leaves it and returns None."""
        with self._gate.try_exclusive() as entered:
            return self._trim(reason, host=host) if entered else None

    def insist(self, reason: Reason, timeout_s: float) -> TrimRecord | None:
        """Trims device and host as soon as the batches inside are done; None if they are not."""
        with self._gate.exclusive(timeout_s) as entered:
            return self._trim(reason, host=True) if entered else None

    def _trim(self, reason: Reason, *, host: bool) -> TrimRecord | None:
        if self._allocator.capturing():
            return None
        before = self._allocator.stats()
        begun = time.perf_counter()
        self._allocator.trim()
        if host:
            for give_back in self.before_host_trim:
                give_back()
            self._allocator.trim_host()
        seconds = time.perf_counter() - begun
        left = self._allocator.stats()
        trim = TrimRecord(reason, seconds, _returned(before, left, host=host), left)
        counted = self.trims.get(reason, Trims()).add(seconds, trim.returned_bytes)
        # Replaced rather than changed: other threads read it.
        self.trims = {**self.trims, reason: counted}
        self._report(
            "trim",
            device=self._allocator.name,
            reason=reason.value,
            ms=round(seconds * 1e3, 3),
            returned_bytes=trim.returned_bytes,
            segments=before.segments - left.segments,
        )
        return trim


def _returned(before: Stats, left: Stats, *, host: bool) -> int:
    returned = before.reserved - left.reserved
    if host:
        returned += before.host_releasable - left.host_releasable
    return max(0, returned)
