"""The engine of a CPU: threads that share its cores, and small work on the event loop."""

import time
import warnings
from collections.abc import Awaitable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from farpoint_server.compute.batch import Batch
from farpoint_server.compute.devices import available_cores
from farpoint_server.compute.engine import PAUSE, Engine, service_error
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager, manager_of
from farpoint_server.compute.threads import EngineThread, SharedCores, prepare_thread
from farpoint_server.compute.work import Answer, Work
from farpoint_server.errors import ServiceError

CPU = torch.device("cpu")
# Handing work to the engine's thread and back takes 0.25 ms of CPU and 0.3 ms of time with one
# caller. On two cores, which callers and event loop fill, work of 0.36 ms (predicted as 0.45) ends
# in 0.8 of the time on the loop with 1 and with 16 callers, and in the same time with 64.
FEW_CORES = 2
FEW_CORES_NS = 500_000
# A batch of a model: on the engine's thread it waits for Python's lock, which the loop has. With 8
# callers of models that take 0.4 to 0.8 ms, 1.1 times as many calls are answered.
FEW_CORES_BATCH_NS = 2_000_000
# With more cores the engine runs in parallel to the loop, which should keep only work that costs
# about as much as handing it over. Estimated, not measured.
MANY_CORES_NS = 250_000
# A batch of models, whose budget is what they took when they were loaded, may take twice as long.
LATE = 2
# Predicted time from which ops of torch have threads: one op of a small model is over before they
# have come and gone. RandLA-Net takes 3.5 ms without and 4.6 ms with two of them, PointConv 4.9 and
# 4.4 ms, DGCNN 22 and 17 ms.
TEAM_NS = 5_000_000


class CpuEngine(Engine):
    """Runs batches on the calling machine's cores.

    Args:
        cpu_threads: Threads of the kernels, shared by batches that run at a time.
        memory: Of the process; one without a limit if None.
        background: As for `Engine`.
        is_background: Whether this is such an engine.
        cores: Cores of this process; all that it may run on if None.
        at_once: Batches that run at a time, each on a thread of the engine.
    """

    device_type = "cpu"

    def __init__(
        self,
        cpu_threads: int,
        memory: Manager | None = None,
        background: Engine | None = None,
        *,
        is_background: bool = False,
        cores: int | None = None,
        at_once: int = 1,
    ) -> None:
        name = "engine-cpu-background" if is_background else "engine-cpu"
        prepare = partial(prepare_thread, cpu_threads, is_background)
        threads = [EngineThread(name, prepare) for _ in range(at_once)]
        super().__init__(CPU, memory or manager_of(CPU, Gate()), threads, background)
        self.at_once = self.depth = at_once
        if not is_background:
            has_few = (cores or available_cores()) <= FEW_CORES
            self.inline_ns = FEW_CORES_NS if has_few else MANY_CORES_NS
            self.inline_batch_ns = FEW_CORES_BATCH_NS if has_few else MANY_CORES_NS
        self._cores = SharedCores(cpu_threads)
        self._paused: dict[str, float] = {}
        """Cost keys of batches that are not run inline, until when."""

    async def start(self, first: Work[Any]) -> None:
        _accept_read_only_arrays()
        await super().start(first)

    def submit(self, batch: Batch[Answer]) -> Awaitable[list[Answer | ServiceError]]:
        run = partial(self._run, batch)
        thread, has_team = min(self._threads, key=attrgetter("calls")), None
        if batch.works[0].uses_openmp:
            has_team = thread is self._threads[0] and self._cost_ns(batch) > TEAM_NS
        shared = partial(self._cores.run, run, has_team=has_team)
        answers: Awaitable[list[Any]] = thread.call(shared)
        return answers

    def _run(self, batch: Batch[Any]) -> list[Any]:
        begun = time.thread_time()
        answers = self.memory.run(batch, Batch.run_on_cpu, service_error)
        # Of a model's time on a busy machine most is spent waiting for Python's lock.
        batch.cpu_s = time.thread_time() - begun if batch.works[0].uses_openmp else None
        return answers

    def _cost_ns(self, batch: Batch[Any]) -> int:
        return sum([work.cost_ns(self.device_type) for work in batch.works])

    def inline_batch(self, batch: Batch[Answer]) -> list[Answer | None] | None:
        """A batch that fails here is left to `submit`, too."""
        key, now, begun = batch.works[0].cost_key, time.monotonic(), time.thread_time()
        if not self._is_free or self._paused.get(key, now) > now:
            return None
        if self._cost_ns(batch) > self.inline_batch_ns:
            return None
        torch.set_num_threads(1)  # of the process for MKL, which an engine's thread may have set
        predicted = batch.predicted_bytes if self.memory.bounded else 0
        try:
            return self.memory.run_inline(batch.run_on_cpu, predicted)
        except Exception:
            return None
        finally:
            seconds = time.thread_time() - begun  # a busy machine is not the model's fault
            if seconds * 1e9 > LATE * self.inline_batch_ns:
                paused = {known: end for known, end in self._paused.items() if end > now}
                self._paused = {**paused, key: now + PAUSE * seconds}

    @property
    def _is_free(self) -> bool:
        """Whether the event loop may run small work, since no thread of the engine runs any."""
        return self.inline_ns >= 0 and not any(thread.calls for thread in self._threads)

    def inline(self, work: Work[Answer]) -> Answer | None:
        """Work that fails here is left to `submit`, which handles the error."""
        if not self._is_free:
            return None
        try:
            return self.memory.run_inline(
                partial(work.inline, self.inline_ns), work.predicted_bytes
            )
        except Exception:
            return None


def _accept_read_only_arrays() -> None:
    """Consumes torch's single warning about read-only arrays; the kernels only read.

    The bytes of a message are read-only, and torch warns of such memory once in a process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(np.frombuffer(bytes(4), np.float32))
