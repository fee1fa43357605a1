"""A worker thread that runs functions for the event loop, and its scheduling priority."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

T = TypeVar("T")
# Under Linux's fair scheduler a thread of niceness 10 has a ninth of the weight of one of 0, and
# one of 0 that wakes up takes its core at once. Threads that it starts inherit this.
NICENESS = 10


def can_lower_priority() -> bool:
    """Whether one thread can get a lower priority: niceness is per thread on Linux."""
    return sys.platform == "linux"


def lower_priority() -> None:
    """Lowers the priority of the calling thread and of threads that it starts."""
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
    """The cores of concurrent batches: a single batch has all of them, several share them.

    Most models gain little from a second thread, so several batches are worth more than one.
    """

    def __init__(self, cores: int) -> None:
        self._cores, self._batches, self._lock = cores, 0, threading.Lock()

    def run(self, batch: Callable[[], T]) -> T:
        """Runs a batch on the calling thread with its current share of threads."""
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


def background_threads(cpu_threads: int, *, lowered: bool) -> int:
    """Threads of long work on a CPU whose short work has `cpu_threads`.

    All of them at a lowered priority; else half, so that cores are left for short work.
    """
    return cpu_threads if lowered else max(1, cpu_threads // 2)


# The way to the engine's thread and back, which is a task, a future, a queue, and two threads to
# wake that then wait for each other, takes 0.25 ms of CPU and 0.3 ms of time at one caller. On two
# cores, which callers and event loop fill, work of 0.36 ms (estimated at 0.45) still ends in 0.8 of
# the time on the loop at one caller and at 16, and in the same time at 64.
FEW_CORES = 2
FEW_CORES_NS = 500_000
# With more cores the engine works in parallel to the loop, so a full loop should keep only what
# costs it about as much as handing over. That limit is estimated, not measured.
MANY_CORES_NS = 250_000


def inline_limit_ns(cores: int) -> int:
    """Nanoseconds that work on the event loop may take, given the cores of this process."""
    return FEW_CORES_NS if cores <= FEW_CORES else MANY_CORES_NS


@dataclass(eq=False)
class _Call:
    """A function for the thread, and its result."""

    function: Callable[[], Any] | None
    answer: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        """On the thread."""
        function, self.function = self.function, None
        if function is None or self.answer.cancelled():
            return
        try:
            self.result = function()
        except BaseException as error:
            self.error = error

    def settle(self) -> None:
        """On the event loop."""
        if self.answer.done():
            return
        # Taken, since an error holds the frames that it passed, and one of them this object.
        error, self.error = self.error, None
        if error is None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(error)


class EngineThread:
    """A queue and a thread.

    A ThreadPoolExecutor of one costs a condition, two futures and a chain of callbacks a call.

    Args:
        name: Of the thread.
        prepare: Runs on it first.
    """

    def __init__(self, name: str, prepare: Callable[[], object]) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._prepare = prepare
        self._unsettled = 0
        # A kernel that hangs does not keep the process.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def calls(self) -> int:
        """Unfinished calls; constant until the event loop continues."""
        return self._unsettled

    def call(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs a function after those submitted earlier, and returns its result.

        If the future is cancelled before, the function does not run.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._unsettled += 1
        self._calls.put(_Call(function, answer))
        return answer

    def stop(self) -> None:
        """Ends the thread after the submitted functions."""
        self._calls.put(None)

    def _run(self) -> None:
        self._prepare()
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        # A frame of its own: nothing of a call is kept while the thread waits for the next one.
        call = self._calls.get()
        if call is None:
            return False
        call.run()
        # The loop may be closed by now, and then no caller waits.
        with contextlib.suppress(RuntimeError):
            call.answer.get_loop().call_soon_threadsafe(self._settle, call)
        return True

    def _settle(self, call: _Call) -> None:
        self._unsettled -= 1
        call.settle()
