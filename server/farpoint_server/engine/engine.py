"""Engine of one device: threads that run batches and everything else on the device."""

import asyncio
import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, methodcaller
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from farpoint_server.engine.devices import available_cores, describe_missing_code
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.engine.transfer.cuda import CudaDevice
from farpoint_server.engine.transfer.pipeline import DEPTH, Pipeline
from farpoint_server.engine.types import Answer, Batch, Clouds, InlineWork
from farpoint_server.errors import (
    RETRY_MS,
    DeviceFailedError,
    OverloadedError,
    ServiceError,
    StartError,
    TooLargeError,
)
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import Manager, manager_of
from farpoint_server.memory.oom import DeviceLost, OutOfMemory, TooLarge

T = TypeVar("T")
# Under Linux's fair scheduler a thread of niceness 10 has a ninth of the weight of one of 0, and
# one of 0 that wakes up takes its core at once. Threads that it starts inherit this.
NICENESS = 10
# Handing work to the engine's thread and back takes 0.25 ms of CPU and 0.3 ms of time with one
# caller. On two cores, which callers and event loop fill, work of 0.36 ms (predicted as 0.45) ends
# in 0.8 of the time on the loop with 1 and with 16 callers, and in the same time with 64.
FEW_CORES = 2
FEW_CORES_NS = 500_000
# With more cores the engine runs in parallel to the loop, which should keep only work that costs
# about as much as handing it over. Estimated, not measured.
MANY_CORES_NS = 250_000


class EngineThread:
    """A queue and a thread, on which `prepare` runs first.

    A ThreadPoolExecutor of one costs a condition, two futures and a chain of callbacks a call.
    """

    def __init__(self, name: str, prepare: Callable[[], object]) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]
        self._queue = SimpleQueue()
        self._prepare = prepare
        self.calls = 0
        """Unfinished calls; constant until the event loop continues."""
        # A daemon: a kernel that hangs does not keep the process alive.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs a function after those submitted earlier, and returns its result.

        If the future is cancelled before, the function does not run.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.calls += 1
        self._queue.put((function, answer))
        return answer

    def stop(self) -> None:
        """Ends the thread after the submitted functions."""
        self._queue.put(None)

    def _run(self) -> None:
        self._prepare()
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        # A function of its own, so that no local keeps a call alive while the thread waits.
        call = self._queue.get()
        if call is None:
            return False
        function, answer = call
        settle = partial(self._settle, answer)
        if not answer.cancelled():
            try:
                settle = partial(settle, function())
            except BaseException as error:
                settle = partial(settle, error=error)
        # Raised if the loop is closed, when no caller waits.
        with suppress(RuntimeError):
            answer.get_loop().call_soon_threadsafe(settle)
        # An error holds this frame, which must not hold the error in turn.
        del call, function, answer, settle
        return True

    def _settle(
        self,
        answer: "asyncio.Future[Any]",
        result: Any = None,
        error: BaseException | None = None,
    ) -> None:
        self.calls -= 1
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)


@dataclass(frozen=True)
class _Pending(Generic[Answer]):
    """The answer to one request of a batch in flight on a GPU."""

    answers: "Future[list[Answer]]"
    place: int


class Engine:
    """Runs batches on one device, off the event loop.

    Args:
        cpu_threads: Threads of the kernels on a CPU, shared by batches that run at a time.
        background: Runs long work on the same device at a lower priority. It is started and stopped
            with this engine, and shares its memory manager.
        is_background: Whether this is such an engine.
        cores: Cores of this process; all that it may run on if None.
        at_once: Batches that run at a time on a CPU, each on a thread of the engine.
    """

    def __init__(
        self,
        device: torch.device,
        cpu_threads: int,
        memory: Manager | None = None,
        pipeline: Pipeline | None = None,
        background: "Engine | None" = None,
        *,
        is_background: bool = False,
        cores: int | None = None,
        at_once: int = 1,
    ) -> None:
        self.device = device
        self.background = background
        self.memory = memory or manager_of(device, Gate())
        self.pipeline = pipeline or _pipeline_to(device, self.memory, background is not None)
        if self.pipeline is not None:
            self.memory.before_host_trim(self.pipeline.give_back)
        self.at_once = at_once
        """Batches that compute at a time."""
        self.depth = at_once if self.pipeline is None else DEPTH
        """Batches that may be given to the engine before it has answered the first of them."""
        runs_inline = self.pipeline is None and not is_background
        self.inline_ns = inline_limit_ns(cores or available_cores()) if runs_inline else -1
        """Nanoseconds that work may be predicted to take to be run on the event loop."""
        self._cores = SharedCores(cpu_threads)
        name = f"engine-{device}{'-background' if is_background else ''}"
        prepare = partial(prepare_thread, cpu_threads, is_background)
        self._threads = [EngineThread(name, prepare) for _ in range(at_once)]

    async def start(self) -> None:
        """Runs a first batch, so that the first request does not wait for lazy initialization.

        Raises:
            StartError: the kernels hold no code for this GPU.
        """
        _accept_read_only_arrays()
        one = np.ones(1, np.int64)
        try:
            await self.run(SampleBatch([Clouds(np.zeros((1, 3), np.float32), one, one, one - 1)]))
        except RuntimeError as error:
            if "no kernel image" not in str(error):
                raise
            raise StartError(
                f"--device {self.device}: {describe_missing_code(self.device)}"
            ) from error
        if self.background is not None:
            await self.background.start()

    def run(self, batch: Batch[Answer]) -> Awaitable[list[Answer | ServiceError]]:
        """The answer to each request of a batch, in order, from one launch where memory allows.

        Where memory runs out, a batch takes several launches, and what does not fit alone is
        answered with an error.

        Raises:
            DeviceFailedError: the device no longer works; while it is awaited.
        """
        if self.pipeline is None:
            forward = methodcaller("run", self.device, None)
            run: Callable[[], list[Any]] = partial(self.memory.run, batch, forward, _service_error)
            thread = min(self._threads, key=attrgetter("calls"))
            return thread.call(partial(self._cores.run, run))
        return self._run_in_pipeline(batch, self.pipeline)

    def run_inline_if_idle(self, work: InlineWork[Answer]) -> Answer | None:
        """Runs small work at once on the event loop; None if it must wait.

        Work that fails here is left to `run`, which handles the error.
        """
        if work.cost_ns > self.inline_ns or any(thread.calls for thread in self._threads):
            return None
        batch = work.batch([work])
        try:
            run = partial(batch.run, self.device, None)
            answers = self.memory.run_inline(run, batch.predicted_bytes)
        except Exception:
            return None
        return answers[0] if isinstance(answers, list) else None

    def check(self, predicted_bytes: int) -> None:
        """Raises TooLargeError for work that can never fit this device."""
        try:
            self.memory.check(predicted_bytes)
        except TooLarge as error:
            raise _service_error(error) from error

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on a thread of the engine after its current batch."""
        return await self._threads[0].call(function)

    async def call_behind_long_work(self, function: Callable[[], T]) -> T:
        """Runs a function after the current long batch, before the next one.

        A trim holds new batches back while it waits for running ones; here these are short ones.
        """
        threads = (self.background or self)._threads
        met, done = threading.Barrier(len(threads)), threading.Event()

        def alone() -> T:
            met.wait()
            try:
                return function()
            finally:
                done.set()

        for thread in threads[1:]:
            thread.call(lambda: (met.wait(), done.wait()))
        # Shielded: a cancelled call would not run, and leave the other threads waiting.
        return await asyncio.shield(threads[0].call(alone))

    def stop(self) -> None:
        """Ends the threads after their current batches."""
        if self.background is not None:
            self.background.stop()
        for thread in self._threads:
            thread.stop()
        if self.pipeline is not None:
            self.pipeline.stop()

    async def _run_in_pipeline(
        self, batch: Batch[Answer], pipeline: Pipeline
    ) -> list[Answer | ServiceError]:
        begun = await self.call(partial(self._begin, batch, pipeline))
        try:
            return [await self._completed(answer) for answer in begun]
        except DeviceLost as error:
            raise _service_error(error) from error

    def _begin(self, batch: Batch[Answer], pipeline: Pipeline) -> list[Any]:
        """Overlaps the batch with the previous one only if memory allows."""
        fits = self.memory.has_headroom(batch.predicted_bytes)
        pipeline.wait(DEPTH - 1 if fits else 0)
        return self.memory.run(batch, partial(self._forward, batch), _service_error)

    def _forward(
        self, whole: Batch[Answer], part: Batch[Answer]
    ) -> list[Answer | _Pending[Answer]]:
        answers = part.run(self.device, self.pipeline)
        if not isinstance(answers, Future):
            return [*answers]
        if part is whole:
            return [_Pending(answers, place) for place in range(len(part))]
        # Cut because memory is scarce, so the parts run one after the other.
        assert self.pipeline is not None
        self.pipeline.wait(0)
        return [*answers.result()]

    async def _completed(self, answer: Any) -> Any:
        if not isinstance(answer, _Pending):
            return answer
        try:
            if not answer.answers.done():
                await asyncio.wrap_future(answer.answers)
            return answer.answers.result()[answer.place]
        except Exception as error:
            raise self.memory.failed(error) from error


def check_any(engines: Sequence[Engine], predicted_bytes: int) -> None:
    """Raises TooLargeError for work that can never fit any engine."""
    for engine in engines[:-1]:
        with suppress(TooLargeError):
            engine.check(predicted_bytes)
            return
    for last in engines[-1:]:
        last.check(predicted_bytes)


def _service_error(finding: OutOfMemory | DeviceLost) -> ServiceError:
    """The caller's error for a finding of the memory manager."""
    if isinstance(finding, DeviceLost):
        return DeviceFailedError("the device failed; the server restarts")
    if isinstance(finding, TooLarge):
        return TooLargeError(str(finding))
    return OverloadedError(str(finding), RETRY_MS)


def _pipeline_to(device: torch.device, memory: Manager, high_priority: bool) -> Pipeline | None:
    """None for a CPU."""
    if device.type != "cuda":
        return None
    cuda = CudaDevice(device, high_priority=high_priority)
    return Pipeline(cuda, memory.hold, f"transfer-{device}")


def _accept_read_only_arrays() -> None:
    """Consumes torch's single warning about read-only arrays; the kernels only read.

    The bytes of a message are read-only, and torch warns of such memory once in a process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(np.frombuffer(bytes(4), np.float32))


def inline_limit_ns(cores: int) -> int:
    """Nanoseconds that work on the event loop may take, given the cores of this process."""
    return FEW_CORES_NS if cores <= FEW_CORES else MANY_CORES_NS


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
