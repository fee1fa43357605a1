"""Threads of an engine: a queue of calls, priority, and the cores that they share."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

T = TypeVar("T")
# Under Linux's fair scheduler a thread of niceness 10 has a ninth of the weight of one of 0, and
# one of 0 that wakes up takes its core at once. Threads that it starts inherit this.
NICENESS = 10


class Settle:
    """Gives a call its result or error, once, from any thread."""

    __slots__ = ("_answer", "_on_end")

    def __init__(
        self, answer: "asyncio.Future[Any]", on_end: Callable[[], object] = lambda: None
    ) -> None:
        self._answer, self._on_end = answer, on_end

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller has left."""
        return self._answer.cancelled()

    def __call__(self, result: Any = None, error: BaseException | None = None) -> None:
        # Raised if the loop is closed, when no caller waits.
        with suppress(RuntimeError):
            self._answer.get_loop().call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        self._on_end()
        if self._answer.done():
            return
        if error is None:
            self._answer.set_result(result)
        else:
            self._answer.set_exception(error)


class EngineThread:
    """A queue and a thread, on which `prepare` runs first.

    A ThreadPoolExecutor of one costs a condition, two futures and a chain of callbacks a call.
    """

    def __init__(self, name: str, prepare: Callable[[], object]) -> None:
        self._queue: SimpleQueue[tuple[Callable[[Settle], Any], Settle] | None] = SimpleQueue()
        self._prepare = prepare
        self.calls = 0
        """Unsettled calls; constant until the event loop continues."""
        self._is_idle = False
        self._wake: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # A daemon: a kernel that hangs does not keep the process alive.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs a function after those submitted earlier, and returns its result.

        If the future is cancelled before, the function does not run.
        """
        return self.begin(lambda settle: settle(function()))

    def begin(self, function: Callable[[Settle], object]) -> "asyncio.Future[Any]":
        """As `call`, for a function that settles its call itself, on this thread or later."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.calls += 1
        self._is_idle = False
        self._queue.put((function, Settle(answer, self._end_call)))
        return answer

    def is_idle(self, wake: Callable[[], None]) -> bool:
        """Whether a function would begin at once; if not, `wake` is called when it would.

        It may be wrong for a moment, which only costs time.
        """
        # In this order: the thread sets the second before it reads the first.
        self._loop, self._wake = asyncio.get_running_loop(), wake
        if self._is_idle:
            self._wake = None
        return self._is_idle

    def stop(self) -> None:
        """Ends the thread after the submitted functions."""
        self._queue.put(None)

    def _end_call(self) -> None:
        self.calls -= 1

    def _run(self) -> None:
        self._prepare()
        self._rest()
        while self._run_next():
            self._rest()

    def _rest(self) -> None:
        """Wakes those who wait for a thread without work."""
        self._is_idle = self._queue.empty()
        wake, loop = self._wake, self._loop
        if self._is_idle and wake is not None and loop is not None:
            self._wake = None
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(wake)

    def _run_next(self) -> bool:
        # A function of its own, so that no local keeps a call alive while the thread waits.
        call = self._queue.get()
        if call is None:
            return False
        function, settle = call
        if settle.is_cancelled:
            settle()
        else:
            try:
                function(settle)
            except BaseException as error:
                settle(error=error)
        # An error holds this frame, which must not hold the error in turn.
        del call, function, settle
        return True


def prepare_thread(cpu_threads: int, is_background: bool) -> None:
    """Sets up the calling thread for kernels, at a lower priority if `is_background`."""
    # OpenMP keeps the number of threads per calling thread, so it is set on this one.
    torch.set_num_threads(cpu_threads)
    if is_background:  # on Linux niceness is per thread
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(19, niceness + NICENESS))


class SharedCores:
    """The cores of concurrent batches: a single batch has all of them, several share them.

    Most models gain little from a second thread, so running several batches at a time is faster.
    Of torch's ops only those on one thread of the engine run in parallel: each thread would get an
    OpenMP team of its own, and once teams together outnumber the cores, waits in them sleep.
    """

    def __init__(self, cores: int) -> None:
        self._cores, self._batches, self._lock = cores, 0, threading.Lock()

    def run(self, batch: Callable[[], T], *, has_team: bool | None = None) -> T:
        """Runs a batch on the calling thread with its current share of threads.

        Args:
            batch: What to run.
            has_team: Whether the thread has the OpenMP team; None for a batch that uses none.
        """
        with self._lock:
            self._batches += 1
            threads = max(1, self._cores // self._batches)
            if has_team is not None:
                threads = max(1, self._cores - self._batches + 1) if has_team else 1
        # MKL has one number for the process, which another thread may have set.
        if has_team is not None or torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        try:
            return batch()
        finally:
            with self._lock:
                self._batches -= 1
