"""Handler of encoding requests: receive, parse, validate, admit, decode, schedule, serialize.

Encode and ModelInfer of a loaded encoder share its steps.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from farpoint.v1 import sampling_pb2
from farpoint_server import request_context
from farpoint_server.codec.encode import (
    ParsedEncodeRequest,
    decode_encode_request,
    parse_encode_request,
    serialize_encode_response,
)
from farpoint_server.codec.parts import check_encode
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.codec.wire import read_message
from farpoint_server.engine.engine import Engine, check_any
from farpoint_server.engine.types import Outcome, StageOutput
from farpoint_server.models.forward import EncodeWork
from farpoint_server.models.registry import LoadedModel, Registry
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.placement import Scheduler
from farpoint_server.services.model_statistics import MOST_NOTED, Ended, ModelStatistics
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import ReceiveTurns, receive

T = TypeVar("T")


@dataclass(frozen=True)
class EncodeHandler:
    """Turns encoding requests into responses.

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
    engines: Sequence[Engine]
    statistics: ModelStatistics = field(default_factory=ModelStatistics)

    async def handle(self, context: Context) -> bytes:
        """The serialized EncodeResponse to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        arrived = time.monotonic()
        self.admission.check_room()
        raw = await receive(context, self.receiving)
        check = check_encode(self.limits.clouds)
        message = read_message(raw, sampling_pb2.EncodeRequest, check)
        model = self.registry.get(message.model)
        request = parse_encode_request(message, len(raw), model.config, self.limits)
        with self.admission.hold(request.points.shape[0], len(raw)):
            serialize = partial(serialize_encode_response, model.name, request, arrived)
            chunks = await self.encode(model, request, context.time_remaining(), serialize)
        return b"".join(chunks)

    async def encode(
        self,
        model: LoadedModel,
        request: ParsedEncodeRequest,
        timeout_s: float | None,
        serialize: Callable[[Outcome[list[StageOutput]]], T],
    ) -> T:
        """The response to a request that is admitted, as `serialize` makes it."""
        begun = time.monotonic_ns()
        try:
            return await self._encode(model, request, timeout_s, serialize, begun)
        except BaseException:
            self.statistics.fail(model.name, begun)
            raise

    async def _encode(
        self,
        model: LoadedModel,
        request: ParsedEncodeRequest,
        timeout_s: float | None,
        serialize: Callable[[Outcome[list[StageOutput]]], T],
        begun: int,
    ) -> T:
        loop = asyncio.get_running_loop()
        fields = request_context.current().fields
        fields["points"], fields["clouds"] = request.points.shape[0], len(request.lengths)
        fields["model"] = model.name
        clouds = await loop.run_in_executor(self.threads, decode_encode_request, request)
        work = EncodeWork(model.encoders, clouds, kind=f"encode {model.name}")
        check_any(self.engines, work.least_bytes)
        decoded_at = time.monotonic_ns()
        outcome = await self.batcher.run(work, timeout_s)
        times = begun, decoded_at, time.monotonic_ns()
        fields["queue_ms"] = round(outcome.queue_ms, 3)
        fields["compute_ms"] = round(outcome.compute_ms, 3)
        response = await loop.run_in_executor(self.threads, serialize, outcome)
        waited, took = outcome.queue_ms, outcome.compute_ms
        counted = model.name, len(request.lengths), outcome.batch_requests, waited, took
        self.statistics.noted.append(Ended(*counted, *times, time.monotonic_ns()))
        if len(self.statistics.noted) >= MOST_NOTED:
            self.statistics.count()
        return response
