"""The one thread per device that runs batches, and in time all else that touches the device."""

import asyncio
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from farpoint_server.engine import partition as pieces
from farpoint_server.engine.launch import launch, send
from farpoint_server.engine.thread import EngineThread
from farpoint_server.engine.transfer.cuda import CudaCard
from farpoint_server.engine.transfer.pipeline import DEPTH, Pipeline
from farpoint_server.engine.types import Batch, Clouds, Float32s, Int32s, Samples
from farpoint_server.errors import DeviceFailedError, OverloadedError, ServiceError
from farpoint_server.memory.failures import DeviceLost, OutOfMemory
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.options import Options, manager_of
from farpoint_server.memory.prediction import sample_bytes
from farpoint_server.memory.task import Answer, Task, Work
from farpoint_server.memory.trimmer import Gate

# What a request gets that was given up: nobody reads it.
_NOTHING = Samples(np.empty(0, np.int32), None)
# A neighbor's memory, or that of a large batch, is back in about this time.
OOM_RETRY_MS = 1000

T = TypeVar("T")


@dataclass(frozen=True)
class Ticket:
    """The answer to one request of a batch that is on its way to a card and back."""

    landing: "Future[list[Samples]]"
    place: int

    def wait(self) -> Samples:
        """The samples, once they are here; raises what the card reported."""
        return self.landing.result()[self.place]


class Engine:
    """Runs batches on one device, off the event loop: one at a time, or on a card two.

    Args:
        device: Where the kernels run.
        cpu_threads: Threads of the kernels on a CPU.
        memory: Of the device; one with the defaults if None.
        pipeline: To the card; that of `device` if None.
    """

    def __init__(
        self,
        device: torch.device,
        cpu_threads: int,
        memory: Manager | None = None,
        pipeline: Pipeline[Any] | None = None,
    ) -> None:
        self.device = device
        self.memory = memory or manager_of(device, Options(), Gate())
        self.pipeline = pipeline or _pipeline_to(device, self.memory)
        if self.pipeline is not None:
            self.memory.before_host_trim(self.pipeline.give_back)
        self.depth = 1 if self.pipeline is None else DEPTH
        """Batches that may be given to the engine before it has answered the first of them."""
        # Answers with Samples, or with the Tickets for them.
        self._task: Task[pieces.Piece, Any] = (
            Task(self._forward, pieces.predict, pieces.halve, pieces.join_samples)
            if self.pipeline is None
            else Task(self._send, pieces.predict, pieces.halve, _join)
        )
        # OpenMP keeps the number of threads per calling thread, so it is set on the engine's own.
        self._thread = EngineThread(f"engine-{device}", partial(torch.set_num_threads, cpu_threads))

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
            outcomes = await self.call(partial(self.run, self._task, pieces.cut(batch)))
            if self.pipeline is not None:
                outcomes = [await self._landed(outcome) for outcome in outcomes]
        except DeviceLost as error:
            raise DeviceFailedError("the device failed; the server restarts") from error
        return [_refusal(o) if isinstance(o, OutOfMemory) else o for o in outcomes]

    def sample_here(self, clouds: Clouds) -> Samples | None:
        """The samples of one request, at once and on the event loop; None if they have to wait.

        While the loop is here nothing can be handed to the engine's thread. What fails here is
        left to `sample`, which knows what the failure means.
        """
        if self.pipeline is not None or not self._thread.is_idle:
            return None
        predicted = sample_bytes(len(clouds.points), len(clouds.lengths), clouds.samples)
        try:
            return self.memory.run_here(partial(_sample_alone, clouds), predicted)
        except Exception:
            return None

    def run(self, task: Task[Work, Answer], work: Sequence[Work]) -> list[Answer | OutOfMemory]:
        """Work of any kind, on the engine's thread; see `Manager.run`.

        A batch that is still on its way back stays so only where there is memory beside it.
        """
        if self.pipeline is not None:
            beside = self.memory.has_room_beside(task.predict(work))
            self.pipeline.wait(DEPTH - 1 if beside else 0)
        return self.memory.run(task, work)

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the engine's thread, after the batch that is on it."""
        return await self._thread.call(function)

    def stop(self) -> None:
        """Lets the threads end after the batches that they are at."""
        self._thread.stop()
        if self.pipeline is not None:
            self.pipeline.stop()

    def _forward(self, parts: Sequence[pieces.Piece]) -> list[Samples]:
        batch = pieces.join(parts)
        if batch.cancelled.all():
            return [_NOTHING] * len(batch.requests)
        return _split(batch.requests, *launch(batch))

    def _send(self, parts: Sequence[pieces.Piece]) -> list[Ticket]:
        assert self.pipeline is not None
        batch = pieces.join(parts)
        nothing = [_NOTHING] * len(batch.requests)
        landing = send(batch, self.pipeline, partial(_split, batch.requests), nothing)
        if not pieces.is_whole(parts):
            # It was cut because memory is scarce, so its parts follow one another.
            self.pipeline.wait(0)
            landing.result()
        return [Ticket(landing, place) for place in range(len(batch.requests))]

    async def _landed(self, outcome: Ticket | OutOfMemory) -> Samples | OutOfMemory:
        if isinstance(outcome, OutOfMemory):
            return outcome
        try:
            if not outcome.landing.done():
                await asyncio.wrap_future(outcome.landing)
            return outcome.wait()
        except Exception as error:
            raise self.memory.failed(error) from error


def _refusal(reason: OutOfMemory) -> ServiceError:
    return OverloadedError(str(reason), OOM_RETRY_MS)


def _pipeline_to(device: torch.device, memory: Manager) -> Pipeline[torch.Tensor] | None:
    """None for a CPU, whose memory is the host's own."""
    if device.type != "cuda":
        return None
    return Pipeline(CudaCard(device), memory.hold, f"landing-{device}")


def _join(left: pieces.Piece, first: Ticket, second: Ticket) -> Ticket:
    landing: Future[list[Samples]] = Future()
    landing.set_result([pieces.join_samples(left, first.wait(), second.wait())])
    return Ticket(landing, 0)


def _sample_alone(clouds: Clouds) -> Samples:
    return Samples(*launch(Batch([clouds])))


def _split(batch: Sequence[Clouds], rows: Int32s, distances: Float32s | None) -> list[Samples]:
    """Gives each request its own samples, with rows counted from its own first point."""
    samples = []
    point = sample = 0
    for clouds in batch:
        part = slice(sample, sample + clouds.samples)
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
