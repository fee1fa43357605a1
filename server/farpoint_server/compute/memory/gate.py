"""Readers-writer lock: batches are readers, trims are writers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Gate:
    """A readers-writer lock whose writers have a timeout and block new readers while they wait.

    Readers are batches, from before their first allocation on the device until the answer is copied
    from it. Writers are trims.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.readers = 0
        """Batches in flight."""
        self._writing = False
        self._waiting_writers = 0
        self.waiting = 0
        """Threads that wait until no batch is in flight."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A batch; waits for a trim that runs or waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._waiting_writers)
            self.readers += 1
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> bool:
        """Enters without waiting, if possible; the batch ends with `leave`."""
        with self._lock:
            if self._writing or self._waiting_writers:
                return False
            self.readers += 1
        return True

    def leave(self) -> None:
        """Ends a batch."""
        with self._lock:
            self.readers -= 1
            # No other thread waits for readers.
            if self._waiting_writers or self.waiting:
                self._changed.notify_all()

    def hold_shared(self) -> Callable[[], None]:
        """Keeps a batch in flight after its `reading`, until the returned function is called.

        Must be called by a thread that is reading; the function may be called by any.
        """
        with self._changed:
            self.readers += 1
        return self.leave

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Waits until no batch is in flight, and returns whether that happened in time."""
        with self._changed:
            self.waiting += 1
            empty = self._changed.wait_for(lambda: not self.readers, timeout_s)
            self.waiting -= 1
        return empty

    @contextmanager
    def exclusive(self, timeout_s: float = 0) -> Iterator[bool]:
        """A trim, which blocks new batches while it waits for those in flight.

        Must not wait on a thread that is itself reading. Yields whether all ended in time.
        """
        with self._changed:
            self._waiting_writers += 1
            entered = self._changed.wait_for(
                lambda: not self.readers and not self._writing, timeout_s
            )
            self._waiting_writers -= 1
            self._writing = self._writing or entered
            self._changed.notify_all()
        try:
            yield entered
        finally:
            if entered:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()
