"""Scheduling priority of an engine's thread: long work yields the cores to short work."""

import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import torch

# Under Linux's fair scheduler a thread of niceness 10 has a ninth of the weight of one of 0, and
# one of 0 that wakes up takes its core at once. Threads that it starts inherit this.
NICENESS = 10
T = TypeVar("T")


def can_lower_priority() -> bool:
    """Whether a single thread can be given a lower priority: niceness is per thread on Linux."""
    return sys.platform == "linux"


def lower_priority() -> None:
    """Has the calling thread, and those that it starts from now on, run behind others."""
    if can_lower_priority():
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(19, niceness + NICENESS))


def prepare_thread(cpu_threads: int, is_background: bool) -> None:
    """Sets up the calling thread for kernels, of long work if `is_background`."""
    # OpenMP keeps the number of threads per calling thread, so it is set on this one.
    torch.set_num_threads(cpu_threads)
    if is_background:
        lower_priority()


class SharedCores:
    """The cores of batches that run at a time: a batch alone has all, and each beside it a part.

    Most models gain little from a second thread, so several batches are worth more than one.
    """

    def __init__(self, cores: int) -> None:
        self._cores, self._batches, self._lock = cores, 0, threading.Lock()

    def run(self, batch: Callable[[], T]) -> T:
        """Runs a batch on the calling thread, with as many threads as it may have now."""
        with self._lock:
            self._batches += 1
            threads = max(1, self._cores // self._batches)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        try:
            return batch()
        finally:
            with self._lock:
                self._batches -= 1


def background_threads(cpu_threads: int) -> int:
    """Threads of long work on a CPU that short work has `cpu_threads` of.

    All of them where they can run behind short work; else half, so that cores are left for it.
    """
    return cpu_threads if can_lower_priority() else max(1, cpu_threads // 2)
