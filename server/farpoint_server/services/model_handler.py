"""What requests to any loaded model have in common: decode, schedule, serialize, count."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from farpoint_server import request_context
from farpoint_server.codec.parts import Check
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.codec.wire import read_message
from farpoint_server.engine.engine import Engine, check_any
from farpoint_server.engine.types import Answer, Int64s, Outcome, Work
from farpoint_server.models.registry import Registry
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.placement import Scheduler
from farpoint_server.services.model_statistics import MOST_NOTED, Ended, ModelStatistics
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import ReceiveTurns, receive

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class ModelWork(Work[Answer], Protocol[Answer]):
    """Work that says what it needs at least."""

    @property
    def least_bytes(self) -> int:
        """Bytes of what it is cut to where memory is short."""
        ...


@dataclass(frozen=True)
class ModelHandler:
    """Runs requests to models.

    Args:
        limits: What one request may hold at most.
        admission: What all requests together may hold at most.
        receiving: Whose turn it is to send a message.
        batcher: Runs the work.
        registry: The loaded models.
        threads: Where messages are decoded and serialized.
        engines: Any of them may get a request.
        statistics: Where requests are counted.
    """

    limits: RequestLimits
    admission: Admission
    receiving: ReceiveTurns
    batcher: Scheduler
    registry: Registry
    threads: ThreadPoolExecutor
    engines: Sequence[Engine] = ()
    statistics: ModelStatistics = field(default_factory=ModelStatistics)

    async def receive(self, context: Context, kind: type[M], check: Check) -> tuple[M, int]:
        """The one message of a call, and its bytes.

        Raises:
            ServiceError: there is no room, or no message came, or a wrong one.
        """
        self.admission.check_room()
        raw = await receive(context, self.receiving)
        return read_message(raw, kind, check), len(raw)

    async def run(
        self,
        model: str,
        lengths: Int64s,
        decode: Callable[[], ModelWork[Answer]],
        timeout_s: float | None,
        serialize: Callable[[Outcome[Answer]], T],
    ) -> T:
        """The response to a request that is admitted, as `serialize` makes it.

        Args:
            model: Name of it.
            lengths: Points of each cloud.
            decode: Makes the work, on another thread.
            timeout_s: Seconds that the caller will still wait; None for ever.
            serialize: Makes the response of the answer, on another thread.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        begun = time.monotonic_ns()
        try:
            return await self._run(model, lengths, decode, timeout_s, serialize, begun)
        except BaseException:
            self.statistics.fail(model, begun)
            raise

    async def _run(
        self,
        model: str,
        lengths: Int64s,
        decode: Callable[[], ModelWork[Answer]],
        timeout_s: float | None,
        serialize: Callable[[Outcome[Answer]], T],
        begun: int,
    ) -> T:
        loop = asyncio.get_running_loop()
        fields = request_context.current().fields
        fields["points"], fields["clouds"] = int(lengths.sum()), len(lengths)
        fields["model"] = model
        work = await loop.run_in_executor(self.threads, decode)
        check_any(self.engines, work.least_bytes)
        decoded_at = time.monotonic_ns()
        outcome = await self.batcher.run(work, timeout_s)
        times = begun, decoded_at, time.monotonic_ns()
        fields["queue_ms"] = round(outcome.queue_ms, 3)
        fields["compute_ms"] = round(outcome.compute_ms, 3)
        response = await loop.run_in_executor(self.threads, serialize, outcome)
        waited, took = outcome.queue_ms, outcome.compute_ms
        counted = model, len(lengths), outcome.batch_requests, waited, took
        self.statistics.noted.append(Ended(*counted, *times, time.monotonic_ns()))
        if len(self.statistics.noted) >= MOST_NOTED:
            self.statistics.count()
        return response
