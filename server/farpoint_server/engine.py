"""The one thread per device that runs batches, and in time all else that touches the device."""

import asyncio
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from farpoint_server import pieces
from farpoint_server.errors import DeviceFailedError, OverloadedError, ServiceError
from farpoint_server.launch import launch
from farpoint_server.memory.failures import DeviceLost, OutOfMemory
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.options import Options, manager_of
from farpoint_server.memory.task import Task
from farpoint_server.work import Batch, Clouds, Float32s, Int32s, Samples

# What a request gets that was given up: nobody reads it.
_NOTHING = Samples(np.empty(0, np.int32), None)
# A neighbor's memory, or that of a large batch, is back in about this time.
OOM_RETRY_MS = 1000

T = TypeVar("T")


class Engine:
    """Runs batches on one device, one at a time, off the event loop.

    Args:
        device: Where the kernels run.
        cpu_threads: Threads of the kernels on a CPU.
        memory: Of the device; one with the defaults if None.
    """

    def __init__(
        self, device: torch.device, cpu_threads: int, memory: Manager | None = None
    ) -> None:
        self.device = device
        self.memory = memory or manager_of(device, Options(), Gate())
        self._task = Task(self._forward, pieces.predict, pieces.halve, pieces.join_samples)
        # OpenMP keeps the number of threads per calling thread, so it is set on the engine's own.
        self._thread = ThreadPoolExecutor(
            1, f"engine-{device}", initializer=torch.set_num_threads, initargs=(cpu_threads,)
        )

    async def start(self) -> None:
        """Runs a first batch, so that the first request does not pay for what is made lazily."""
        _accept_read_only_arrays()
        one = np.ones(1, np.int64)
        await self.sample(Batch([Clouds(np.zeros((1, 3), np.float32), one, one, one - 1)]))

    async def sample(self, batch: Batch) -> list[Samples | ServiceError]:
        """The samples of each request of a batch, in order, from one launch for all clouds.

        Where memory runs out, a batch takes several launches, and what does not fit alone is
        answered with an error.

        Raises:
            DeviceFailedError: the device works no more.
        """
        try:
            outcomes = await self.call(partial(self.memory.run, self._task, pieces.cut(batch)))
        except DeviceLost as error:
            raise DeviceFailedError("the device failed; the server restarts") from error
        return [_refusal(o) if isinstance(o, OutOfMemory) else o for o in outcomes]

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the engine's thread, after the batch that is on it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def stop(self) -> None:
        """Lets the thread end after the batch it runs."""
        self._thread.shutdown(wait=False)

    def _forward(self, parts: Sequence[pieces.Piece]) -> list[Samples]:
        batch = pieces.join(parts)
        if batch.cancelled.all():
            return [_NOTHING] * len(batch.requests)
        rows, distances = launch(batch, self.device)
        return _split(batch.requests, rows, distances)


def _refusal(reason: OutOfMemory) -> ServiceError:
    return OverloadedError(str(reason), OOM_RETRY_MS)


def _split(batch: Sequence[Clouds], rows: Int32s, distances: Float32s | None) -> list[Samples]:
    """Gives each request its own samples, with rows counted from its own first point."""
    samples = []
    point = sample = 0
    for clouds in batch:
        part = slice(sample, sample + int(clouds.sample_counts.sum()))
        samples.append(
            Samples(
                rows=rows[part] - np.int32(point),
                distances=distances[part]
                if clouds.with_distances and distances is not None
                else None,
            )
        )
        point += len(clouds.points)
        sample = part.stop
    return samples


def _accept_read_only_arrays() -> None:
    """Has torch give its one warning about arrays that it must not write; the kernels only read.

    A message's bytes are read-only, and torch warns of such memory once in a process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(np.frombuffer(bytes(4), np.float32))
