"""Requests through models, on the threads of the engines."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from farpoint_server.engine.engine import OOM_RETRY_MS, Engine
from farpoint_server.engine.model_types import ModelInput, Stage
from farpoint_server.errors import (
    DeadlinePassedError,
    DeviceFailedError,
    EngineHungError,
    OverloadedError,
)
from farpoint_server.memory.failures import DeviceLost, OutOfMemory
from farpoint_server.models.forward import TASK, Piece
from farpoint_server.models.registry import Model
from farpoint_server.scheduling.watchdog import HUNG, Watchdog


@dataclass(frozen=True)
class Encoded:
    """The stages of a request and where the time went."""

    stages: list[Stage]
    queue_ms: float
    compute_ms: float


@dataclass(eq=False)
class _Job:
    """One request, until its forward has ended, even if nobody waits for that any more."""

    piece: Piece
    answer: asyncio.Future[Encoded]
    accepted: float = field(default_factory=time.monotonic)

    @property
    def is_wanted(self) -> bool:
        return not self.answer.done()

    def fail(self, error: Exception) -> None:
        if self.is_wanted:
            self.answer.set_exception(error)


@dataclass(eq=False)
class _Line:
    """Those who wait for an engine.

    One at a time is handed to its thread, where it takes turns with the batches of Sample.
    """

    position: int
    engine: Engine
    waiting: deque[_Job] = field(default_factory=deque)
    server: "asyncio.Task[None] | None" = None
    """Works the line off, while there is one."""

    @property
    def length(self) -> int:
        return len(self.waiting) + (self.server is not None)


class Runner:
    """Runs one request at a time on each engine, between its batches and its trims.

    Args:
        engines: All of the server's.
        watchdog: Told of every forward; one without limit if None.
    """

    def __init__(self, engines: Sequence[Engine], watchdog: Watchdog | None = None) -> None:
        self._lines = [_Line(position, engine) for position, engine in enumerate(engines)]
        self._watchdog = watchdog or Watchdog(None, len(engines))

    async def run(self, model: Model, clouds: ModelInput, timeout_s: float | None) -> Encoded:
        """Every stage of the model for the clouds of a request.

        Raises:
            DeadlinePassedError: `timeout_s` seconds passed. What had not begun is not begun.
            OverloadedError: there is not enough memory now.
            EngineHungError: no engine answers.
            DeviceFailedError: the device works no more.
        """
        line = self._shortest_line()
        device = line.engine.device
        piece = Piece(model.encoders[device], clouds, line.engine.pipeline)
        job = _Job(piece, asyncio.get_running_loop().create_future())
        line.waiting.append(job)
        if line.server is None:
            line.server = asyncio.create_task(self._serve(line))
        try:
            return await asyncio.wait_for(job.answer, timeout_s)
        except asyncio.TimeoutError as error:
            text = "the deadline passed before the work ended"
            raise DeadlinePassedError(text) from error
        finally:
            if job in line.waiting:
                line.waiting.remove(job)

    def _shortest_line(self) -> _Line:
        lines = [line for line in self._lines if not self._watchdog.is_hung(line.position)]
        if not lines:
            raise EngineHungError(HUNG)
        return min(lines, key=lambda line: line.length)

    async def _serve(self, line: _Line) -> None:
        # Watched to its end also after its caller has left: the next one waits for it.
        while line.waiting:
            await self._run(line, line.waiting.popleft())
        line.server = None

    async def _run(self, line: _Line, job: _Job) -> None:
        def tell() -> None:
            for late in (job, *line.waiting):
                late.fail(EngineHungError(HUNG))

        work = line.engine.call(lambda: _encode(line.engine, job))
        try:
            encoded = await self._watchdog.watch(line.position, work, tell)
        except DeviceLost:
            job.fail(DeviceFailedError("the device failed; the server restarts"))
        except Exception as error:
            job.fail(error)
        else:
            _deliver(job, encoded)


def _deliver(job: _Job, encoded: Encoded | OutOfMemory | None) -> None:
    if isinstance(encoded, OutOfMemory):
        job.fail(OverloadedError(str(encoded), OOM_RETRY_MS))
    elif encoded is not None and job.is_wanted:
        job.answer.set_result(encoded)


def _encode(engine: Engine, job: _Job) -> Encoded | OutOfMemory | None:
    """On the engine's thread; None if nobody waits for it."""
    if not job.is_wanted:
        return None
    begun = time.monotonic()
    (answer,) = engine.run(TASK, [job.piece])
    if isinstance(answer, OutOfMemory):
        return answer
    return Encoded(answer, (begun - job.accepted) * 1e3, (time.monotonic() - begun) * 1e3)
