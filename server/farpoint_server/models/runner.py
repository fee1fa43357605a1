"""Requests through models, on the threads of the engines."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from farpoint_server.engine import OOM_RETRY_MS, Engine
from farpoint_server.errors import DeadlinePassedError, DeviceFailedError, OverloadedError
from farpoint_server.memory.failures import DeviceLost, OutOfMemory
from farpoint_server.models.forward import TASK, Piece
from farpoint_server.models.registry import Model
from farpoint_server.models.work import ModelInput, Stage


@dataclass(frozen=True)
class Encoded:
    """The stages of a request and where the time went."""

    stages: list[Stage]
    queue_ms: float
    compute_ms: float


@dataclass
class _Line:
    """Those who wait for an engine.

    One at a time is handed to its thread, where it takes turns with the batches of Sample.
    """

    engine: Engine
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class Runner:
    """Runs one request at a time on each engine, between its batches and its trims."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._lines = [_Line(engine) for engine in engines]

    async def run(self, model: Model, clouds: ModelInput, timeout_s: float | None) -> Encoded:
        """Every stage of the model for the clouds of a request.

        Raises:
            DeadlinePassedError: `timeout_s` seconds passed. What had not begun is not begun.
            OverloadedError: there is not enough memory now.
            DeviceFailedError: the device works no more.
        """
        line = min(self._lines, key=lambda line: line.length)
        line.length += 1
        try:
            return await asyncio.wait_for(self._run(line, model, clouds), timeout_s)
        except asyncio.TimeoutError as error:
            text = "the deadline passed before the work ended"
            raise DeadlinePassedError(text) from error
        finally:
            line.length -= 1

    async def _run(self, line: _Line, model: Model, clouds: ModelInput) -> Encoded:
        accepted = time.monotonic()
        engine = line.engine
        piece = Piece(model.encoders[engine.device], engine.device, clouds)
        async with line.lock:
            try:
                answer, begun, ended = await engine.call(partial(_timed, engine, piece))
            except DeviceLost as error:
                raise DeviceFailedError("the device failed; the server restarts") from error
        if isinstance(answer, OutOfMemory):
            raise OverloadedError(str(answer), OOM_RETRY_MS)
        return Encoded(answer, (begun - accepted) * 1e3, (ended - begun) * 1e3)


def _timed(engine: Engine, piece: Piece) -> tuple[list[Stage] | OutOfMemory, float, float]:
    begun = time.monotonic()
    (answer,) = engine.memory.run(TASK, [piece])
    return answer, begun, time.monotonic()
